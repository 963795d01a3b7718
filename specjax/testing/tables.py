"""Models of known law: the next token's law is a table over the last tokens."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from specjax.types import Cache, Fresh, Pass, Slots


@dataclasses.dataclass(frozen=True)
class TableModel:
  """Order-n Markov model: logits = table[last n tokens].

  Its cache holds token ids where a transformer's holds keys and values (one
  layer, one head, width 1), so that a fault in the cache, a mask, a position or
  a commit changes the law. Before the text begins token 0 stands.

  The weights are {"table": [V] * order + [V] of logits}; `features` makes the
  tap "token" the token fed itself.
  """

  vocab_size: int
  order: int = 2
  max_positions: int = 1 << 30

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
    batch, width = slots.tokens.shape
    own = slots.tokens.astype(jnp.float32)[:, None, :, None]
    place = slots.positions.astype(jnp.float32)[:, None, :, None]
    fresh = Fresh(((own, place),))
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
    context = [
      self._at(tokens, places, seen, slots.positions - back)
      for back in range(self.order)
    ]
    logits = params["table"][tuple(reversed(context))]  # oldest token first
    if readout is not None:
      readout = jnp.broadcast_to(readout, (batch, readout.shape[1]))
      logits = jnp.take_along_axis(logits, readout[..., None], 1)
    features = {name: own[:, 0] for name in taps}
    return Pass(logits, fresh, features)

  def _at(self, tokens, places, seen, position) -> Int[Array, "B W"]:
    """The token that each slot sees at a position; two of them are averaged."""
    hit = seen & (places[:, None] == position[..., None])
    total = jnp.where(hit, tokens[:, None], 0.0).sum(-1)
    mean = total / jnp.maximum(hit.sum(-1), 1)
    return jnp.round(mean).astype(jnp.int32)


def random_table(
  seed: int, vocab_size: int, order: int = 2, scale: float = 1.5
) -> dict[str, Float[Array, "..."]]:
  """Weights of a TableModel: normal logits of the given scale."""
  rng = np.random.default_rng(seed)
  shape = (vocab_size,) * (order + 1)
  return {"table": jnp.asarray(rng.normal(0, scale, shape), jnp.float32)}


def blur(
  table: dict, seed: int, amount: float = 1.0
) -> dict[str, Float[Array, "..."]]:
  """A draft of a table: its logits with normal noise added."""
  rng = np.random.default_rng(seed)
  noise = rng.normal(0, amount, table["table"].shape)
  return {"table": table["table"] + jnp.asarray(noise, jnp.float32)}


def tied_table(
  seed: int, vocab_size: int, order: int = 3
) -> dict[str, Float[Array, "..."]]:
  """Logits on a coarse grid, so that the largest of a row is often tied."""
  table = random_table(seed, vocab_size, order)["table"]
  return {"table": jnp.round(table)}


def cyclic_table(
  vocab_size: int, order: int = 2
) -> dict[str, Float[Array, "..."]]:
  """After token x comes x + 1, and 0 after the last, almost surely."""
  following = np.eye(vocab_size, dtype=np.float32)
  following = 20.0 * np.roll(following, 1, 1)
  shape = (vocab_size,) * (order + 1)
  return {"table": jnp.asarray(np.broadcast_to(following, shape))}


def mixed_table(
  table: dict, seed: int, share: float = 0.75
) -> dict[str, Float[Array, "..."]]:
  """A draft of a table that is right for a share of the contexts.

  The other contexts get unrelated laws. However deep, a greedy draft of such
  weights is refused at every depth.
  """
  rng = np.random.default_rng(seed)
  right = rng.random(table["table"].shape[:-1]) < share
  other = rng.normal(0, 1.5, table["table"].shape)
  mixed = np.where(right[..., None], np.asarray(table["table"]), other)
  return {"table": jnp.asarray(mixed, jnp.float32)}


def edge_tables() -> tuple[dict, dict]:
  """(target, draft) of 5 tokens and order 1 at the edges of floating point.

  By last token: equal laws; laws one ulp apart, of which one has zeros; NaN
  entries, and a draft whose row is all NaN; logits of +-1e4; a row with
  nothing left, against a draft with one token.
  """
  none, nan = -np.inf, np.nan
  base = np.asarray([0.3, -0.2, 0.9, 0.1, -1.0], np.float32)
  target = np.stack(
    [
      base,
      [0.5, none, 0.5, 0.25, none],
      [nan, 0.0, 0.4, nan, 0.2],
      [1e4, -1e4, 1e4, 1e4 - 1.0, 0.0],
      [none] * 5,
    ]
  ).astype(np.float32)
  draft = np.stack(
    [
      base,
      np.nextafter(target[1], np.float32(np.inf)),
      [nan] * 5,
      [1e4, 1e4, -1e4, 1e4, none],
      [none, 0.0, none, none, none],
    ]
  ).astype(np.float32)
  draft[1, 1] = none
  return {"table": jnp.asarray(target)}, {"table": jnp.asarray(draft)}
