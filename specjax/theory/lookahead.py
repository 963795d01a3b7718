"""Lookahead decoding: several candidate n-grams verified in one pass.

Fu et al. 2024 (arXiv 2402.02057).
"""

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Real

from specjax.theory.arrays import as_floats, powers


def expected_tokens(
  acceptance: Real[ArrayLike, "*#s"],
  num_candidates: Real[ArrayLike, "*#s"],
  num_speculative_tokens: int,
) -> Float[Array, "*s"]:
  """Tokens of a pass that keeps the best of b guesses of g tokens each.

  (g + 1) - sum over i = 1..g of (1 - a^i)^b. One guess gives eq. 1 of Leviathan
  et al.

  Args:
    acceptance: alpha of each token, in [0, 1].
    num_candidates: b, 1 or more.
    num_speculative_tokens: g.
  """
  alpha, count = jnp.broadcast_arrays(*as_floats(acceptance, num_candidates))
  kept = powers(alpha, num_speculative_tokens + 1)[..., 1:]
  missed = (1 - kept) ** count[..., None]
  return (num_speculative_tokens + 1) - missed.sum(-1)


def step_compression(
  tokens: Real[ArrayLike, "*#s"], steps_a_guess: Real[ArrayLike, "*#s"]
) -> Float[Array, "*s"]:
  """(f - 1 + E) / f: tokens a step where every f-th step has a good guess."""
  tokens, every = as_floats(tokens, steps_a_guess)
  return (every - 1 + tokens) / every


def tokens_of_step(window: int, candidates: int, ngram: int) -> int:
  """Input tokens of one pass: (W + G)(N - 1)."""
  return (window + candidates) * (ngram - 1)
