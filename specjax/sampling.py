"""From logits to a law, from a law to a draw, and the random streams.

Temperature comes first, then the filters of `filters.py`. A draw is the inverse
of the distribution function at one uniform number. The uniform has 23 bits, so
a token rarer than about 1e-7 is drawn with that granularity.
"""

import enum
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, Num

from specjax import filters
from specjax.types import Law, Sampling, Streams

_BLOCK = 128
Numbers = int | float | Sequence[int] | Sequence[float] | Num[np.ndarray, "..."]


class Purpose(enum.IntEnum):
  """Separate random streams; a number of one is never used by another."""

  TARGET = 0
  DRAFT = 1
  ACCEPT = 2
  RECOVER = 3


def make_sampling(
  batch: int,
  *,
  temperature: Numbers = 0.0,
  top_k: Numbers = 0,
  top_p: Numbers = 1.0,
  min_p: Numbers = 0.0,
) -> Sampling:
  """Per-row sampling settings, each a number or one a row.

  Raises:
    ValueError: what is no number, a negative temperature or top_k, a top_p
      outside (0, 1], a min_p outside [0, 1].
  """
  t = _numbers("temperature", temperature, "iuf")
  k = _numbers("top_k", top_k, "iu")
  p, m = _numbers("top_p", top_p, "iuf"), _numbers("min_p", min_p, "iuf")
  if not (np.isfinite(t).all() and (t >= 0).all()):
    raise ValueError(
      f"temperature must be 0 or more and finite, got {temperature}"
    )
  if (k < 0).any():
    raise ValueError(f"top_k must be 0 (off) or more, got {top_k}")
  if not ((p > 0) & (p <= 1)).all():
    raise ValueError(f"top_p must be in (0, 1], got {top_p}")
  if not ((m >= 0) & (m <= 1)).all():
    raise ValueError(f"min_p must be in [0, 1], got {min_p}")
  on = {
    "temperature": (t > 0).any(),
    "top_k": (k > 0).any(),
    "top_p": (p < 1).any(),
    "min_p": (m > 0).any(),
  }
  uses = frozenset(name for name, used in on.items() if used)
  if "temperature" not in uses:
    uses = frozenset()

  def full(x, dtype):
    return jnp.asarray(np.broadcast_to(x, (batch,)).astype(dtype))

  return Sampling(
    temperature=full(t, np.float32),
    top_k=full(np.minimum(k, np.iinfo(np.int32).max), np.int32),
    top_p=full(p, np.float32),
    min_p=full(m, np.float32),
    uses=uses,
  )


def _numbers(name: str, value: Any, kinds: str) -> np.ndarray:
  """One number or one a row, of the given kinds of dtype."""
  try:
    array = np.asarray(value)
  except ValueError:  # lists of unequal length
    array = np.asarray(None)
  if array.dtype.kind not in kinds or array.ndim > 1:
    what = "a number" if "f" in kinds else "a whole number"
    raise ValueError(f"{name} must be {what}, or one a row, got {value!r:.40}")
  return array


def point_masses(tokens: Int[Array, "B U"], vocab_size: int) -> Law:
  """The laws in which each token is certain."""
  token = jax.lax.broadcasted_iota(jnp.int32, (1, 1, vocab_size), 2)
  zero = jnp.zeros(tokens.shape, jnp.float32)
  return Law(jnp.where(token == tokens[..., None], 0.0, -jnp.inf), zero, zero)


def make_law(logits: Float[Array, "B U V"], sampling: Sampling) -> Law:
  """The law that `sampling` makes of logits, the same for target and draft.

  NaN counts as -inf, and a row with nothing left is a point mass on token 0.
  """
  logits = jnp.where(jnp.isnan(logits), -jnp.inf, logits.astype(jnp.float32))
  logits = jnp.minimum(logits, jnp.finfo(jnp.float32).max)
  token = jax.lax.broadcasted_iota(jnp.int32, logits.shape, 2)
  top = logits.max(-1, keepdims=True)
  logits = jnp.where((top == -jnp.inf) & (token == 0), 0.0, logits)
  top = jnp.where(top == -jnp.inf, 0.0, top)
  likeliest = point_masses(lowest_argmax(logits), logits.shape[-1])
  if "temperature" not in sampling.uses:
    return likeliest
  greedy = sampling.temperature == 0.0
  t = jnp.maximum(sampling.temperature, jnp.finfo(jnp.float32).tiny)
  scaled = (logits - top) / t[:, None, None]  # at most 0, and 0 at the argmax
  scaled = jnp.where(greedy[:, None, None], likeliest.scaled, scaled)
  cutoff = filters.cutoffs(scaled, sampling)
  cutoff = jnp.where(greedy[:, None], 0.0, cutoff)
  kept = scaled >= cutoff[..., None]
  log_norm = jnp.log(jnp.where(kept, jnp.exp(scaled), 0.0).sum(-1))
  return Law(scaled, cutoff, log_norm)


def log_prob(
  law: Law, row: Int[Array, "B k"], token: Int[Array, "B k"]
) -> Float[Array, "B k"]:
  """Log-probabilities of tokens under rows of a law; -inf where cut."""

  def one(scaled, cutoff, log_norm, row, token):
    x = scaled[row, token]
    return jnp.where(x >= cutoff[row], x - log_norm[row], -jnp.inf)

  return jax.vmap(one)(law.scaled, law.cutoff, law.log_norm, row, token)


def prob(
  law: Law, row: Int[Array, "B k"], token: Int[Array, "B k"]
) -> Float[Array, "B k"]:
  """Probabilities of tokens under rows of a law."""
  return jnp.exp(log_prob(law, row, token))


def dense(law: Law, row: Int[Array, "B"] | None = None) -> Float[Array, "..."]:
  """Probabilities over the vocabulary: [B V] of one row each, or [B U V]."""
  scaled, cutoff, norm = law.scaled, law.cutoff, law.log_norm
  if row is not None:
    scaled = jnp.take_along_axis(scaled, row[:, None, None], 1)[:, 0]
    cutoff = jnp.take_along_axis(cutoff, row[:, None], 1)[:, 0]
    norm = jnp.take_along_axis(norm, row[:, None], 1)[:, 0]
  kept = scaled >= cutoff[..., None]
  return jnp.where(kept, jnp.exp(scaled - norm[..., None]), 0.0)


def lowest_argmax(x: Float[Array, "*k V"]) -> Int[Array, "*k"]:
  """Index of the largest entry; the lowest id wins a tie.

  Two plain reductions, which XLA vectorises where its argmax stays scalar.
  """
  return _first(x == x.max(-1, keepdims=True))


def _first(mask: Bool[Array, "*k V"]) -> Int[Array, "*k"]:
  """Lowest index that holds; the axis's size where none does."""
  size = mask.shape[-1]
  index = jax.lax.broadcasted_iota(jnp.int32, mask.shape, mask.ndim - 1)
  return jnp.where(mask, index, size).min(-1)


def _last(mask: Bool[Array, "*k V"]) -> Int[Array, "*k"]:
  """Highest index that holds; 0 where none does."""
  index = jax.lax.broadcasted_iota(jnp.int32, mask.shape, mask.ndim - 1)
  return jnp.where(mask, index, 0).max(-1)


def inverse_cdf(
  weights: Float[Array, "*k V"], uniform: Float[Array, "*k"]
) -> Int[Array, "*k"]:
  """First token at which the weights' running sum passes uniform * total.

  Running sums of blocks find the block, one inside it finds the token. A token
  of weight 0 is never returned, whatever the sums round to, as long as one
  weight is positive.
  """
  vocab = weights.shape[-1]
  extra = [(0, 0)] * (weights.ndim - 1) + [(0, -vocab % _BLOCK)]
  blocks = jnp.pad(weights, extra)
  blocks = blocks.reshape(*weights.shape[:-1], -1, _BLOCK)
  sums = blocks.sum(-1)
  running = jnp.cumsum(sums, -1)
  aim = uniform * running[..., -1]
  block = _passing(running, sums, aim)[..., None]
  before = jnp.take_along_axis(running - sums, block, -1)[..., 0]
  inside = jnp.take_along_axis(blocks, block[..., None], -2)[..., 0, :]
  token = _passing(jnp.cumsum(inside, -1), inside, aim - before)
  return block[..., 0] * _BLOCK + token


def _passing(running, weights, aim) -> Int[Array, "*k"]:
  """First positive entry whose running sum passes `aim`, else the last."""
  positive = weights > 0.0
  passed = positive & (running > aim[..., None])
  first, last = _first(passed), _last(positive)
  return jnp.where(first < weights.shape[-1], first, last)


def draw(law: Law, uniform: Float[Array, "B U"]) -> Int[Array, "B U"]:
  """One token of every row of a law."""
  return inverse_cdf(dense(law), uniform)


def target_uniform(
  row: Key[Array, "B"], position: Int[Array, "B k"]
) -> Float[Array, "B k"]:
  """The number that draws the target's own sample at absolute positions.

  A function of (row, position) alone, so that plain decoding and the
  exact-match rule emit the same tokens whatever was drafted.
  """

  def one(key, position):
    return jax.random.uniform(jax.random.fold_in(key, position))

  stream = _stream(row, Purpose.TARGET)
  return jax.vmap(jax.vmap(one, (None, 0)))(stream, position)


def round_uniform(
  keys: Streams, purpose: Purpose, node: Int[Array, "B k"]
) -> Float[Array, "B k"]:
  """Numbers of this round: a function of (row, round start, purpose, node)."""
  if purpose == Purpose.TARGET:
    raise ValueError("the target's stream is drawn by position")

  def one(key, start, node):
    key = jax.random.fold_in(jax.random.fold_in(key, start), node)
    return jax.random.uniform(key)

  stream = _stream(keys.row, purpose)
  return jax.vmap(jax.vmap(one, (None, None, 0)))(
    stream, keys.round_start, node
  )


def _stream(row: Key[Array, "B"], purpose: Purpose) -> Key[Array, "B"]:
  return jax.vmap(lambda key: jax.random.fold_in(key, int(purpose)))(row)
