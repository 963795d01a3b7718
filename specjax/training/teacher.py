"""A target's laws, factored: made, brought to a temperature, to a vocabulary.

The order matters: temperature first, then the reduced vocabulary, because what
the draft cannot say is one lump and has no law at another temperature.

Axes: K named tokens, V target vocabulary, Vq draft vocabulary.
"""

import dataclasses

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int

from specjax.filters import largest
from specjax.models.heads import vocabulary_rows
from specjax.training.types import Frozen, Teacher


def top_k(logits: Float[Array, "*b V"], k: int) -> Teacher:
  """The k likeliest tokens and the mass of the others, at temperature 1.

  The likeliest token is the first entry, the lowest id at a tie. With k < V the
  others follow in order; a full law (k = V) is not sorted.

  Raises:
    ValueError: k outside 1 to V.
  """
  size = logits.shape[-1]
  if not 1 <= k <= size:
    raise ValueError(f"k must be in 1 to {size}, got {k}")
  logits = logits.astype(jnp.float32)
  if k == size:
    ids, top = _likeliest_first(logits)
    rest = jnp.full(logits.shape[:-1], -jnp.inf)
  else:
    top, ids = largest(logits, k)
    rest = log_sum(logits, ~mark(ids, jnp.ones(ids.shape, bool), size))
  total = jnp.logaddexp(log_sum(top), rest)
  return Teacher(
    ids=ids.astype(jnp.int32),
    log_probs=top - total[..., None],
    log_tail=rest - total,
  )


def at_temperature(
  teacher: Teacher, temperature: ArrayLike, vocab_size: int
) -> Teacher:
  """The laws p^(1/T), normalised.

  Exact for a full law. Of a truncated one only the tail's mass is known: it is
  taken as uniform over its V - K tokens, the flattest tail of that mass. That
  gives it too much at T > 1 and too little at T < 1; at T = 1 it is exact.

  Args:
    temperature: T > 0, a number or a scalar array.
    vocab_size: V of the target.

  Raises:
    ValueError: the vocabulary is reduced already, or a T of 0 or less.
  """
  if teacher.log_outside is not None:
    raise ValueError(
      "a teacher is brought to a temperature before its vocabulary is reduced"
    )
  if isinstance(temperature, int | float):
    if temperature <= 0:
      raise ValueError(f"temperature must be above 0, got {temperature}")
    if temperature == 1:
      return teacher
  others = vocab_size - teacher.ids.shape[-1]
  top, rest = teacher.log_probs / temperature, teacher.log_tail
  if others > 0:  # others * (mass / others)^(1/T)
    spread = jnp.log(others)
    rest = spread + (rest - spread) / temperature
  total = jnp.logaddexp(log_sum(top), rest)
  return dataclasses.replace(
    teacher, log_probs=top - total[..., None], log_tail=rest - total
  )


def inverse_ids(
  token_ids: Int[Array, "Vq"], vocab_size: int
) -> Int[Array, "V"]:
  """Draft id of each of the target's `vocab_size` ids; -1 is not sayable.

  Args:
    token_ids: the target's id of each draft id, none twice.
  """
  none = jnp.full((vocab_size,), -1, jnp.int32)
  return none.at[token_ids].set(jnp.arange(len(token_ids), dtype=jnp.int32))


def draft_ids_of(frozen: Frozen) -> Int[Array, "V"] | None:
  """`inverse_ids` of a drafter's vocabulary; None where it has the target's."""
  if frozen.token_ids is None:
    return None
  size = vocabulary_rows(frozen.target).shape[0]
  return inverse_ids(frozen.token_ids, size)


def to_draft(teacher: Teacher, draft_ids: Int[Array, "V"]) -> Teacher:
  """The laws in the ids of a reduced vocabulary.

  Named tokens that the draft cannot say become id 0 with log-probability -inf
  and their mass goes to `log_outside`. Nothing is normalised again. The tail
  stays what it is, a lump of tokens inside and outside.

  Args:
    draft_ids: as `inverse_ids` gives them.

  Raises:
    ValueError: the teacher is in a reduced vocabulary already.
  """
  if teacher.log_outside is not None:
    raise ValueError("the teacher's vocabulary is reduced already")
  ids = draft_ids[teacher.ids]
  inside = ids >= 0
  return Teacher(
    ids=jnp.where(inside, ids, 0),
    log_probs=jnp.where(inside, teacher.log_probs, -jnp.inf),
    log_tail=teacher.log_tail,
    log_outside=log_sum(teacher.log_probs, ~inside),
  )


def dense(teacher: Teacher, vocab_size: int) -> Float[Array, "*b {vocab_size}"]:
  """Log-probabilities of every token, the tail's mass spread evenly.

  For small vocabularies. In a reduced one the tail is taken as sayable and the
  sum is 1 - exp(log_outside).
  """
  named = teacher.log_probs > -jnp.inf
  marked = mark(teacher.ids, named, vocab_size)
  others = vocab_size - marked.sum(-1)
  even = teacher.log_tail - jnp.log(jnp.maximum(others, 1))
  ids = jnp.where(named, teacher.ids, vocab_size)
  flat = jnp.broadcast_to(even[..., None], marked.shape)
  return _a_row(_put, ids.ndim)(flat, ids, teacher.log_probs)


def mark(
  ids: Int[Array, "*b K"], which: Bool[Array, "*b K"], size: int
) -> Bool[Array, "*b {size}"]:
  """Which of `size` tokens are among the ids that count; a byte a token."""
  ids = jnp.where(which, ids, size)  # outside: dropped
  none = jnp.zeros((*ids.shape[:-1], size), bool)
  return _a_row(_put, ids.ndim)(none, ids, jnp.ones_like(which))


def log_sum(
  values: Float[Array, "*b N"], which: Bool[Array, "*b N"] | None = None
) -> Float[Array, "*b"]:
  """log sum exp over the last axis; -inf, with zero slope, of nothing.

  Args:
    which: entries that count; all of them if None.
  """
  if which is not None:
    values = jnp.where(which, values, -jnp.inf)
  top = jax.lax.stop_gradient(values.max(-1))
  top = jnp.where(top == -jnp.inf, 0.0, top)
  total = jnp.exp(values - top[..., None]).sum(-1)
  some = total > 0
  return jnp.where(some, jnp.log(jnp.where(some, total, 1.0)) + top, -jnp.inf)


def _put(row, ids, values):
  return row.at[ids].set(values, mode="drop")


def _a_row(function, ndim: int):
  """Mapped over all axes but the last, which are never merged."""
  for _ in range(ndim - 1):
    function = jax.vmap(function)
  return function


def _likeliest_first(
  logits: Float[Array, "*b V"],
) -> tuple[Int[Array, "*b V"], Float[Array, "*b V"]]:
  """(ids, logits) in the order of ids, but for token 0 and the likeliest."""
  best = logits.argmax(-1, keepdims=True)
  places = jnp.arange(logits.shape[-1]).reshape(
    (1,) * (logits.ndim - 1) + (-1,)
  )
  first, moved = places == 0, places == best

  def swap(values, at_best):
    start = values[..., :1]
    return jnp.where(first, at_best, jnp.where(moved, start, values))

  ids = swap(jnp.broadcast_to(places, logits.shape), best)
  return ids, swap(logits, logits.max(-1, keepdims=True))
