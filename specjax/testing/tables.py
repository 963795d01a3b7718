"""Models of known law: weights of tables, by what a test needs of them."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from specjax.models.table import TableModel as TableModel  # with its weights


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
