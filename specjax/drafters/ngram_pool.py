"""A pool of n-grams a row, on the device: the newest first, none twice.

A search goes through all of it: at a few thousand n-grams that is less than a
vocabulary has tokens.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from specjax.filters import largest

NONE = -1  # in place of a token


def empty(batch: int, size: int, ngram: int) -> Int[Array, "B M n"]:
  """Pools of rows that have seen nothing."""
  return jnp.full((batch, size, ngram), NONE, jnp.int32)


def has(pool: Int[Array, "B M n"], first: Int[Array, "B"]) -> Bool[Array, "B"]:
  """Whether an n-gram begins with the token."""
  return (pool[..., 0] == first[:, None]).any(1)


def newest(
  pool: Int[Array, "B M n"], first: Int[Array, "B"], number: int
) -> tuple[Int[Array, "B G n"], Bool[Array, "B G"]]:
  """The G newest n-grams that begin with a token, and which are there."""
  newness = jnp.arange(pool.shape[1], 0, -1, dtype=jnp.float32)[None]
  newness = jnp.where(pool[..., 0] == first[:, None], newness, 0.0)
  best, at = largest(newness, number)
  return jnp.take_along_axis(pool, at[..., None], 1), best > 0


def remember(
  pool: Int[Array, "B M n"],
  grams: Int[Array, "B S n"],
  there: Bool[Array, "B S"],
) -> Int[Array, "B M n"]:
  """The pool after n-grams that came one after the other.

  pool   p q r     newest first; the oldest go where there is no room
  grams  s q t
  after  t q s p r

  Args:
    there: n-grams to take, of those that have no NONE in them.
  """
  grams = jnp.where(there[..., None], grams, NONE)[:, ::-1]
  line = jnp.concatenate([grams, pool], 1)
  place = jnp.arange(line.shape[1], dtype=jnp.int32)
  newer = place[None, : grams.shape[1]] < place[:, None]
  again = (line[:, :, None] == grams[:, None]).all(-1) & newer[None]
  kept = (line != NONE).all(-1) & ~again.any(-1)
  to = jnp.where(kept, jnp.cumsum(kept, 1) - 1, line.shape[1])
  write = jax.vmap(lambda row, to, line: row.at[to].set(line, mode="drop"))
  return write(jnp.full_like(pool, NONE), to, line)
