"""A model of known law: a table over the last tokens gives the next one's."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from specjax.types import Cache, Fresh, Pass, Slots


@dataclasses.dataclass(frozen=True)
class TableModel:
  """Order-n Markov model: logits = table[last n tokens].

  Its cache holds token ids where a transformer's holds keys and values (one
  layer, one head, width 1), so that a fault in the cache, a mask, a position or
  a commit changes the law. Before the text begins token 0 stands.

  Order 1 needs the token fed alone: with `reads_cache` off it takes that at its
  word, which is faster and shows no such fault.

  The weights are {"table": [V] * order + [V] of logits}. The tap "hidden" is
  the context, the last `order` tokens [B W order], oldest first: all that the
  law depends on. Any other tap is the token fed.
  """

  vocab_size: int
  order: int = 2
  max_positions: int = 1 << 30
  reads_cache: bool = True

  def __post_init__(self):
    if not self.reads_cache and self.order != 1:
      raise ValueError(f"a table of order {self.order} reads its cache")

  def init_cache(self, batch: int, capacity: int) -> Cache:
    zero = jnp.zeros((batch, 1, capacity, 1))
    return Cache(((zero, zero),), jnp.zeros((batch,), jnp.int32))

  def __call__(
    self,
    params: PyTree,
    slots: Slots,
    cache: Cache,
    *,
    scratch: Fresh | None = None,
    readout: Int[Array, "#B H"] | None = None,
    taps: tuple[str, ...] = (),
  ) -> Pass:
    own = slots.tokens.astype(jnp.float32)[:, None, :, None]
    place = slots.positions.astype(jnp.float32)[:, None, :, None]
    fresh = Fresh(((own, place),))
    context = [slots.tokens]
    if self.reads_cache:
      context = self._context(slots, cache, scratch, fresh)
    logits = params["table"][tuple(context)]
    if readout is not None:
      readout = jnp.broadcast_to(readout, (len(logits), readout.shape[1]))
      logits = jnp.take_along_axis(logits, readout[..., None], 1)
    hidden = jnp.stack(context, -1).astype(jnp.float32)
    features = {
      name: hidden if name == "hidden" else own[:, 0] for name in taps
    }
    return Pass(logits, fresh, features)

  def _context(self, slots: Slots, cache: Cache, scratch, fresh: Fresh):
    """The last tokens of the text at every slot, the oldest first."""
    batch, width = slots.tokens.shape
    columns = (
      fresh
      if scratch is None
      else jax.tree.map(lambda a, b: jnp.concatenate([a, b], 2), scratch, fresh)
    )
    capacity = cache.layers[0][0].shape[2]
    cached = jnp.arange(capacity)[None] < cache.length[:, None]
    seen = jnp.concatenate(
      [
        jnp.broadcast_to(cached[:, None], (batch, width, capacity)),
        jnp.broadcast_to(slots.mask, (batch, *slots.mask.shape[1:])),
      ],
      2,
    )
    tokens, places = (
      jnp.concatenate([a, b], 2)[:, 0, :, 0]
      for a, b in zip(cache.layers[0], columns.kv[0], strict=True)
    )
    return [
      self._at(tokens, places, seen, slots.positions - back)
      for back in reversed(range(self.order))
    ]

  def _at(self, tokens, places, seen, position) -> Int[Array, "B W"]:
    """The token that each slot sees at a position; two of them are averaged."""
    hit = seen & (places[:, None] == position[..., None])
    total = jnp.where(hit, tokens[:, None], 0.0).sum(-1)
    mean = total / jnp.maximum(hit.sum(-1), 1)
    return jnp.round(mean).astype(jnp.int32)
