"""Attention of a pass's slots over the cache and over fresh columns.

The softmax is accumulated online (Milakov and Gimelshein 2018): it starts from
the fresh columns, where every slot sees at least itself, and goes on over
blocks of the cache. A block past a row's length adds exactly 0, so a row does
not depend on the lengths of the others.
"""

import functools

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

# Cache slots a step. XLA:CPU copies each block out of the cache, so that small
# ones win: at 32 rows of 64 to 100 tokens, 64 slots take a quarter of the time
# of 256.
_CPU_BLOCK, _CPU_BLOCK_OF_MANY_ROWS, _BLOCK = 128, 64, 512
_MANY_ROWS = 8


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
    small = _CPU_BLOCK if batch < _MANY_ROWS else _CPU_BLOCK_OF_MANY_ROWS
    state = lax.platform_dependent(
      *(state, rows, *cached, length),
      cpu=_over_cache(small),
      default=_over_cache(_BLOCK),
    )
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


@functools.cache
def _over_cache(block):
  """Accumulates over the cache; one function a size, so that it traces once."""

  def accumulate(state, rows, keys, values, length):
    capacity = keys.shape[2]
    size = min(block, capacity)

    def step(i, state):
      # The last block is moved back when it would pass the end; columns that
      # the block before it has seen are masked.
      #   capacity 10, size 4:  | 0 1 2 3 | 4 5 6 7 | 8 9 |
      #   last block                        . . 8 9
      first = i * size
      begin = jnp.minimum(first, capacity - size)
      column = begin + jnp.arange(size)[None, None, None]
      visible = (column >= first) & (column < length[:, None, None, None])
      key_part = lax.dynamic_slice_in_dim(keys, begin, size, axis=2)
      value_part = lax.dynamic_slice_in_dim(values, begin, size, axis=2)
      return _add(state, rows, key_part, value_part, visible)

    used = jnp.minimum(jnp.max(length), capacity)
    return lax.fori_loop(0, (used + size - 1) // size, step, state)

  return accumulate
