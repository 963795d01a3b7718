"""Tokens, time and operations of a chain whose acceptance is constant.

Leviathan, Kalman, Matias 2023 (arXiv 2211.17192). Acceptance of each draft
token is taken as independent with one mean alpha; the extra token that a pass
always gives is counted.
"""

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int, Real

from specjax.theory.arrays import append_axis, as_floats

# Below this value of (1 - alpha)(gamma + 1) the quotient of eq. 1, and its
# derivatives more so, cancels; eight terms of its series are then exact to
# double precision.
_NEAR_ONE = 0.05
_TERMS = 8


@jax.jit
def _geometric_sum(alpha: Float[Array, "*#s"], n: Float[Array, "*#s"]) -> Array:
  """1 + alpha + ... + alpha^(n - 1), for any n >= 1, with sound gradients."""
  gap = 1 - alpha
  near = gap * n < _NEAR_ONE
  small = jnp.where(near, gap, 0)
  series = jnp.ones_like(small * n)
  for k in range(_TERMS - 1, 0, -1):
    series = 1 - series * small * (n - k) / (k + 1)
  far = jnp.where(near, jnp.asarray(0.5, alpha.dtype), alpha)
  return jnp.where(near, n * series, (1 - far**n) / (1 - far))


def tokens_per_pass(
  acceptance: Real[ArrayLike, "*#s"],
  num_speculative_tokens: Real[ArrayLike, "*#s"],
) -> Float[Array, "*s"]:
  """(1 - a^(g+1)) / (1 - a): tokens of a target pass (section 3.1, eq. 1).

  Reads of weights and cache a token shrink by the same factor (section 3.4).

  Args:
    acceptance: alpha, in [0, 1].
    num_speculative_tokens: gamma, 0 or more.
  """
  alpha, gamma = as_floats(acceptance, num_speculative_tokens)
  return _geometric_sum(alpha, gamma + 1)


@jax.jit
def acceptance_of_tokens(
  tokens: Real[ArrayLike, "*#s"],
  num_speculative_tokens: Real[ArrayLike, "*#s"],
) -> Float[Array, "*s"]:
  """The alpha at which eq. 1 gives so many tokens a pass, by bisection.

  0 for 1 token or fewer, 1 for gamma + 1 or more.
  """
  tokens, gamma = as_floats(tokens, num_speculative_tokens)

  def halve(_, bounds):
    low, high = bounds
    middle = (low + high) / 2
    below = _geometric_sum(middle, gamma + 1) < tokens
    return jnp.where(below, middle, low), jnp.where(below, high, middle)

  low = jnp.zeros_like(tokens * gamma)
  steps = jnp.finfo(low.dtype).nmant + 2
  low, high = jax.lax.fori_loop(0, steps, halve, (low, jnp.ones_like(low)))
  return jnp.where(tokens <= 1, 0, (low + high) / 2)


def most_tokens_per_pass(
  acceptance: Real[ArrayLike, "*s"],
) -> Float[Array, "*s"]:
  """1 / (1 - a): what no draft length exceeds; inf at acceptance 1."""
  (alpha,) = as_floats(acceptance)
  return 1 / (1 - alpha)


def speedup(
  acceptance: Real[ArrayLike, "*#s"],
  num_speculative_tokens: Real[ArrayLike, "*#s"],
  draft_cost: Real[ArrayLike, "*#s"] = 0.0,
) -> Float[Array, "*s"]:
  """Wall-time factor over plain decoding (theorem 3.8).

  Holds while a pass over gamma + 1 tokens costs what a pass over one does;
  `speedup_of_times` makes no such assumption.

  Args:
    draft_cost: c, seconds of a draft step over those of a target step.
  """
  alpha, gamma, cost = as_floats(acceptance, num_speculative_tokens, draft_cost)
  return _geometric_sum(alpha, gamma + 1) / (gamma * cost + 1)


def speedup_lower_bound(
  acceptance: Real[ArrayLike, "*#s"], draft_cost: Real[ArrayLike, "*#s"]
) -> Float[Array, "*s"]:
  """(1 + a) / (1 + c): the best draft length gains this much (corollary 3.9).

  Above 1 exactly where acceptance exceeds the draft's cost.
  """
  alpha, cost = as_floats(acceptance, draft_cost)
  return (1 + alpha) / (1 + cost)


def operations_factor(
  acceptance: Real[ArrayLike, "*#s"],
  num_speculative_tokens: Real[ArrayLike, "*#s"],
  draft_operations: Real[ArrayLike, "*#s"] = 0.0,
) -> Float[Array, "*s"]:
  """Arithmetic over that of plain decoding (theorem 3.11).

  Args:
    draft_operations: c hat, operations of a draft token over a target token's.
  """
  alpha, gamma, operations = as_floats(
    acceptance, num_speculative_tokens, draft_operations
  )
  spent = gamma * operations + gamma + 1
  return spent / _geometric_sum(alpha, gamma + 1)


def best_length(
  acceptance: Real[ArrayLike, "*#s"],
  draft_cost: Real[ArrayLike, "*#s"],
  longest: int,
) -> tuple[Int[Array, "*s"], Float[Array, "*s"]]:
  """The draft length of the largest speedup, and that speedup (figure 3).

  Args:
    longest: lengths 0 (no drafting) to this one are tried; the shortest wins a
      tie.
  """
  alpha, cost = jnp.broadcast_arrays(*as_floats(acceptance, draft_cost))
  lengths = jnp.arange(longest + 1, dtype=alpha.dtype)
  alpha, lengths = append_axis(alpha, lengths)
  factors = speedup(alpha, lengths, cost[..., None])
  return jnp.argmax(factors, -1).astype(jnp.int32), jnp.max(factors, -1)


def oracle_speedup(
  acceptance: Real[ArrayLike, "*#s"], draft_cost: Real[ArrayLike, "*#s"]
) -> Float[Array, "*s"]:
  """Factor where every draft stops right before its first refused token.

  The number of draft tokens is then geometric with mean a / (1 - a): 1 / (1 -
  a) tokens for 1 + c a / (1 - a) target steps (section 3.5, the oracle).
  """
  alpha, cost = as_floats(acceptance, draft_cost)
  return 1 / (1 - alpha + cost * alpha)


def oracle_gain(
  acceptance: Real[ArrayLike, "*#s"],
  draft_cost: Real[ArrayLike, "*#s"],
  longest: int,
) -> Float[Array, "*s"]:
  """The oracle's factor over the best fixed length's (section 3.5)."""
  _, fixed = best_length(acceptance, draft_cost, longest)
  return oracle_speedup(acceptance, draft_cost) / fixed


def speedup_of_times(
  tokens: Real[ArrayLike, "*#s"],
  num_speculative_tokens: Real[ArrayLike, "*#s"],
  draft_seconds: Real[ArrayLike, "*#s"],
  verify_seconds: Real[ArrayLike, "*#s"],
  plain_seconds: Real[ArrayLike, "*#s"],
) -> Float[Array, "*s"]:
  """tokens * T_T / (gamma T_D + T_V), whatever the batch and the context.

  MagicDec (arXiv 2408.11049); with T_V = T_T it is theorem 3.8.

  Args:
    tokens: a target pass, the extra one counted.
    draft_seconds, verify_seconds, plain_seconds: of a draft step, of the pass
      over all drafted tokens, of plain decoding's step.
  """
  tokens, gamma, draft, verify, plain = as_floats(
    tokens, num_speculative_tokens, draft_seconds, verify_seconds, plain_seconds
  )
  return tokens * plain / (gamma * draft + verify)


def tokens_of_speedup(
  speedup: Real[ArrayLike, "*#s"],
  num_speculative_tokens: Real[ArrayLike, "*#s"],
  draft_cost: Real[ArrayLike, "*#s"],
) -> Float[Array, "*s"]:
  """Tokens a pass that a measured speedup implies: theorem 3.8 turned round."""
  factor, gamma, cost = as_floats(speedup, num_speculative_tokens, draft_cost)
  return factor * (gamma * cost + 1)


def blockwise_calls(
  num_tokens: Real[ArrayLike, "*#s"], block: Real[ArrayLike, "*#s"]
) -> Float[Array, "*s"]:
  """Model calls for m tokens in accepted blocks of k: m / k + 1.

  Stern, Shazeer, Uszkoreit 2018 (arXiv 1811.03115), where the pass that
  verifies also predicts the next block.
  """
  tokens, block = as_floats(num_tokens, block)
  return tokens / block + 1
