"""Drafting beside verification, and drafts of many tokens in one pass."""

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Real

from specjax.theory.arrays import as_floats, powers
from specjax.theory.speedup import tokens_per_pass


def parallel_speedup(
  hit_rate: Real[ArrayLike, "*#s"],
  hit_tokens: Real[ArrayLike, "*#s"],
  miss_tokens: Real[ArrayLike, "*#s"],
  draft_seconds: Real[ArrayLike, "*#s"],
  backup_seconds: Real[ArrayLike, "*#s"],
) -> Float[Array, "*s"]:
  """Factor of a draft that runs on its own device during verification.

  [h E_h + (1 - h) E_m] / [h max(1, T_p) + (1 - h)(1 + T_b)]: SSD (arXiv
  2603.03251), the speedup theorem. Times are in target passes.

  Args:
    hit_rate: h, share of rounds whose outcome had been drafted for.
    hit_tokens, miss_tokens: E_h and E_m, tokens of a round, the extra counted.
    draft_seconds: T_p, of drafting for the likely outcomes.
    backup_seconds: T_b, of the draft that a miss waits for.
  """
  hit, tokens_hit, tokens_miss, draft, backup = as_floats(
    hit_rate, hit_tokens, miss_tokens, draft_seconds, backup_seconds
  )
  tokens = hit * tokens_hit + (1 - hit) * tokens_miss
  return tokens / (hit * jnp.maximum(1, draft) + (1 - hit) * (1 + backup))


def cache_miss_rate(
  fan_out: Real[ArrayLike, "*#s"], exponent: Real[ArrayLike, "*#s"]
) -> Float[Array, "*s"]:
  """F^-r: outcomes that F prepared ones leave out (SSD, power-law cache)."""
  fan_out, exponent = as_floats(fan_out, exponent)
  return fan_out**-exponent


def fan_outs(
  acceptance: Real[ArrayLike, "*#s"],
  exponent: Real[ArrayLike, "*#s"],
  budget: Real[ArrayLike, "*#s"],
  num_speculative_tokens: int,
) -> Float[Array, "*s {num_speculative_tokens}+1"]:
  """Outcomes to prepare for each number k = 0..g of kept tokens (SSD).

  F_k = F_0 a^(k / (1 + r)), and at k = g F_0 (a^g / (1 - a))^(1 / (1 + r)), as
  a full acceptance has probability a^g without the factor 1 - a; together
  they are the budget.

  Args:
    acceptance: a, of each token, in (0, 1).
    exponent: r, of the misses.
    budget: B, sum of all F_k.
  """
  alpha, exponent, budget = jnp.broadcast_arrays(
    *as_floats(acceptance, exponent, budget)
  )
  kept = powers(alpha, num_speculative_tokens + 1)
  chance = jnp.concatenate(
    [kept[..., :-1] * (1 - alpha[..., None]), kept[..., -1:]], -1
  )
  weights = chance ** (1 / (1 + exponent[..., None]))
  share = weights / weights.sum(-1, keepdims=True)
  return budget[..., None] * share


def training_tokens(
  length: Real[ArrayLike, "*#s"],
  keep: Real[ArrayLike, "*#s"],
  depth: Real[ArrayLike, "*#s"],
) -> Float[Array, "*s"]:
  """N (1 - r^K) / (1 - r): positions trained where each depth keeps a share.

  The conditional drop of PARD (arXiv 2504.18583), without its floor; P-EAGLE
  (arXiv 2602.01469) uses the same. keep = 1 gives K N.

  Args:
    length: N, of the sequence.
    keep: r, of the positions of the depth before.
    depth: K.
  """
  length, keep, depth = as_floats(length, keep, depth)
  return length * tokens_per_pass(keep, depth - 1)
