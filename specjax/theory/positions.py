"""Acceptance by position: from what records print to tokens and lengths.

Conditional: position i is kept given that those before it were. Unconditional:
kept at all, out of every draft, as vLLM prints it. Positions 1 to G are on the
last axis.
"""

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int, Real

from specjax.theory.arrays import as_floats, last_axis, powers


def unconditional(
  conditional: Real[ArrayLike, "*s G"],
) -> Float[Array, "*s G"]:
  """Products up to each position: a draft is cut at its first refusal."""
  (rates,) = as_floats(conditional)
  return jnp.cumprod(rates, -1)


def conditional(
  unconditional: Real[ArrayLike, "*s G"],
) -> Float[Array, "*s G"]:
  """Each position over the one before it; 0 where that was never kept."""
  (rates,) = as_floats(unconditional)
  ones = jnp.ones_like(rates[..., :1])
  before = jnp.concatenate([ones, rates[..., :-1]], -1)
  reached = before > 0
  return jnp.where(reached, rates / jnp.where(reached, before, 1), 0)


def falling(
  first: Real[ArrayLike, "*#s"], ratio: Real[ArrayLike, "*#s"], length: int
) -> Float[Array, "*s {length}"]:
  """Conditional acceptance first * ratio^(i - 1) at positions 1 to `length`.

  Deeper guesses rest on guesses, so acceptance falls; ratio 1 is the
  independence of Leviathan et al. 2023 (arXiv 2211.17192).
  """
  first, ratio = jnp.broadcast_arrays(*as_floats(first, ratio))
  return first[..., None] * powers(ratio, length)


def tokens_by_length(
  conditional: Real[ArrayLike, "*s G"],
) -> Float[Array, "*s G+1"]:
  """Expected tokens of a target pass at draft lengths 0 to G.

  1 + the sum of the unconditional rates; eq. 1 of Leviathan et al. where the
  rates are equal.
  """
  kept = unconditional(conditional)
  ones = jnp.ones_like(kept[..., :1])
  return jnp.cumsum(jnp.concatenate([ones, kept], -1), -1)


def expected_tokens(
  conditional: Real[ArrayLike, "*s G"],
) -> Float[Array, "*s"]:
  """Expected tokens of a target pass that judges all G positions."""
  return 1 + unconditional(conditional).sum(-1)


def draft_acceptance_rate(
  conditional: Real[ArrayLike, "*s G"],
) -> Float[Array, "*s"]:
  """Accepted over drafted tokens: the mean of the unconditional rates."""
  return unconditional(conditional).mean(-1)


def _lengths(tokens: Float[Array, "*s L"]) -> Array:
  """0 to L - 1 on the last axis, at the rank of the tokens."""
  lengths = jnp.arange(tokens.shape[-1], dtype=tokens.dtype)
  return lengths.reshape((1,) * (tokens.ndim - 1) + (-1,))


def speedup_by_length(
  conditional: Real[ArrayLike, "*#s G"], draft_cost: Real[ArrayLike, "*#s"]
) -> Float[Array, "*s G+1"]:
  """Wall-time factor at draft lengths 0 to G (Leviathan et al., theorem 3.8).

  Args:
    draft_cost: c, seconds of a draft step over those of a target step.
  """
  tokens = tokens_by_length(conditional)
  tokens, cost = as_floats(tokens, draft_cost)
  lengths = _lengths(tokens)
  return tokens / (lengths * last_axis(cost) + 1)


def operations_by_length(
  conditional: Real[ArrayLike, "*#s G"],
  draft_operations: Real[ArrayLike, "*#s"],
) -> Float[Array, "*s G+1"]:
  """Arithmetic over plain decoding's at lengths 0 to G (theorem 3.11).

  Args:
    draft_operations: c hat, operations of a draft token over a target token's.
  """
  tokens = tokens_by_length(conditional)
  tokens, operations = as_floats(tokens, draft_operations)
  lengths = _lengths(tokens)
  return (lengths * last_axis(operations) + lengths + 1) / tokens


def best_length(
  conditional: Real[ArrayLike, "*#s G"], draft_cost: Real[ArrayLike, "*#s"]
) -> tuple[Int[Array, "*s"], Float[Array, "*s"]]:
  """The length of the largest speedup and that speedup; 0 is not to draft."""
  factors = speedup_by_length(conditional, draft_cost)
  return jnp.argmax(factors, -1).astype(jnp.int32), factors.max(-1)
