"""The K/V cache: read-only inside a pass, written once a round by `commit`."""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Int

from specjax.models.config import DecoderConfig
from specjax.types import Cache, Fresh


def init(config: DecoderConfig, batch: int, capacity: int) -> Cache:
  """An empty cache: keys and values [B K C Dh] a layer, all lengths 0.

  With a capacity of 0 nothing is cached, and a pass can be differentiated.
  """
  shape = (batch, config.num_kv_heads, capacity, config.head_dim)
  layers = tuple(
    (jnp.zeros(shape, config.dtype), jnp.zeros(shape, config.dtype))
    for _ in range(config.num_layers)
  )
  return Cache(layers=layers, length=jnp.zeros(batch, jnp.int32))


def hide_done(cache: Cache, active: Bool[Array, "B"]) -> Cache:
  """The cache as a pass reads it: a done row sees its own slots alone.

  So the work follows the longest row that still runs.
  """
  length = jnp.where(active, cache.length, 0)
  return Cache(layers=cache.layers, length=length)


def commit(
  cache: Cache,
  fresh: Fresh,
  slots: Int[Array, "B S"],
  count: Int[Array, "B"],
) -> Cache:
  """Appends the first `count` kept slots of each row at its length.

  Nothing else changes: a row with count 0 keeps every bit, and what would not
  fit below the capacity is dropped.

  Args:
    cache: layers (k, v) of [B K C Dh], lengths [B].
    fresh: K/V of a pass, [B K W Dh] twice a layer.
    slots: kept slots in order, indices into the W axis of fresh.
    count: how many of them are kept.
  """

  def append(old, new, slots, start, count):
    """One row: old [K C Dh], new [K W Dh]."""
    capacity = old.shape[1]
    size = min(slots.shape[0], capacity)
    # A block that would pass the end starts earlier; its first `shift`
    # entries are then committed ones and stay.
    #   cache  | . . . a b c |      length 5 of 6, S = 4, count 3
    #   block      [ . a b x ]      shift 3: only slot 0 fits, as x
    begin = jnp.minimum(start, capacity - size)
    index = jnp.arange(size) - (start - begin)
    live = (index >= 0) & (index < count)
    picked = slots[jnp.clip(index, 0, slots.shape[0] - 1)]
    update = jnp.take_along_axis(new, picked[None, :, None], axis=1)
    block = lax.dynamic_slice_in_dim(old, begin, size, axis=1)
    block = jnp.where(live[None, :, None], update.astype(old.dtype), block)
    return lax.dynamic_update_slice_in_dim(old, block, begin, axis=1)

  write = jax.vmap(append)
  layers = tuple(
    tuple(
      write(old, new, slots, cache.length, count)
      for old, new in zip(layer, pair, strict=True)
    )
    for layer, pair in zip(cache.layers, fresh.kv, strict=True)
  )
  capacity = cache.layers[0][0].shape[2]
  length = jnp.minimum(cache.length + count, capacity)
  return Cache(layers=layers, length=length)
