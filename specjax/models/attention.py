"""Attention of a pass's slots over the cache and over fresh columns.

The softmax is accumulated online (Milakov and Gimelshein 2018): it starts from
the fresh columns, where every slot sees at least itself, and goes on over
blocks of the cache. A block past a row's length adds exactly 0, so a row does
not depend on the lengths of the others.
"""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

BLOCK = 256


def attend(
  query: Float[Array, "B H W Dh"],
  cached: tuple[Float[Array, "B K C Dh"], Float[Array, "B K C Dh"]],
  length: Int[Array, "B"],
  fresh: tuple[Float[Array, "B K J Dh"], Float[Array, "B K J Dh"]],
  mask: Bool[Array, "#B W J"],
) -> Float[Array, "B H W Dh"]:
  """Softmax attention of W slots over `length` cached and J fresh columns.

  Query head h reads key/value head h // (H / K). Work follows the largest
  length in the batch, not the capacity C.

  Args:
    query: rotated queries.
    cached: keys and values of committed tokens; read only.
    length: visible cache slots of each row.
    fresh: keys and values of scratch columns, then of the slots themselves.
    mask: which fresh columns each slot sees; at least one each.
  """
  batch, heads, width, head_dim = query.shape
  kv_heads, capacity = cached[0].shape[1:3]
  group = heads // kv_heads
  scale = jnp.asarray(head_dim**-0.5, query.dtype)
  rows = (query * scale).reshape(batch, kv_heads, group * width, head_dim)
  visible = jnp.broadcast_to(
    mask[:, None, None], (mask.shape[0], 1, group, *mask.shape[1:])
  ).reshape(mask.shape[0], 1, group * width, mask.shape[2])

  state = _start(rows, *fresh, visible)
  if capacity:
    state = _over_cache(state, rows, *cached, length)
  _, total, weighted = state
  out = (weighted / total).astype(query.dtype)
  return out.reshape(batch, heads, width, head_dim)


def _scores(rows, keys):
  return jnp.einsum(
    "bkrd,bkcd->bkrc", rows, keys, preferred_element_type=jnp.float32
  )


def _weigh(weights, values):
  return jnp.einsum(
    "bkrc,bkcd->bkrd",
    weights.astype(values.dtype),
    values,
    preferred_element_type=jnp.float32,
  )


def _start(rows, keys, values, visible):
  scores = jnp.where(visible, _scores(rows, keys), -jnp.inf)
  peak = jnp.max(scores, axis=-1, keepdims=True)
  weights = jnp.exp(scores - peak)
  total = jnp.sum(weights, axis=-1, keepdims=True)
  return peak, total, _weigh(weights, values)


def _add(state, rows, keys, values, visible):
  peak, total, weighted = state
  scores = jnp.where(visible, _scores(rows, keys), -jnp.inf)
  higher = jnp.maximum(peak, jnp.max(scores, axis=-1, keepdims=True))
  weights, decay = jnp.exp(scores - higher), jnp.exp(peak - higher)
  total = total * decay + jnp.sum(weights, axis=-1, keepdims=True)
  return higher, total, weighted * decay + _weigh(weights, values)


def _over_cache(state, rows, keys, values, length):
  capacity = keys.shape[2]
  block = min(BLOCK, capacity)

  def step(i, state):
    # The last block is moved back when it would pass the end; columns that
    # the block before it has seen are masked.
    first = i * block
    begin = jnp.minimum(first, capacity - block)
    column = begin + jnp.arange(block)[None, None, None]
    visible = (column >= first) & (column < length[:, None, None, None])
    part = [
      lax.dynamic_slice_in_dim(x, begin, block, axis=2) for x in (keys, values)
    ]
    return _add(state, rows, *part, visible)

  blocks = (jnp.max(length) + block - 1) // block
  return lax.fori_loop(
    0, jnp.minimum(blocks, -(-capacity // block)), step, state
  )
