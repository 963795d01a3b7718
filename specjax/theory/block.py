"""Tokens of token-wise and block verification on a bigram target and draft.

Both laws depend on the last token only: tables [V, V], row by row.
"""

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int, Real

from specjax.theory.arrays import as_floats


def token_rule_tokens(
  p: Real[ArrayLike, "V V"],
  q: Real[ArrayLike, "V V"],
  start: Int[ArrayLike, ""],
  num_speculative_tokens: int,
) -> Float[Array, ""]:
  """Expected tokens of a round from the context `start`.

  1 + the sum over i of the mass of min(p, q)^i from that row (Leviathan et al.
  2023, arXiv 2211.17192, algorithm 1).
  """
  p, q = as_floats(p, q)
  kept = jnp.minimum(p, q)
  reach = jnp.zeros_like(p[0]).at[start].set(1)
  tokens = jnp.ones((), p.dtype)
  for _ in range(num_speculative_tokens):
    reach = reach @ kept
    tokens = tokens + reach.sum()
  return tokens


def block_rule_tokens(
  p: Real[ArrayLike, "V V"],
  q: Real[ArrayLike, "V V"],
  start: Int[ArrayLike, ""],
  num_speculative_tokens: int,
) -> Float[Array, ""]:
  """The same under block verification, over all V^g drafts.

  The first i tokens of a draft are kept with probability P_i = min(1, P_{i-1}
  p / q) (Sun et al. 2025, arXiv 2403.10444), so the tokens are 1 +
  the sum over i of E_q[P_i].
  """
  p, q = as_floats(p, q)
  # Drafts drawn so far, ordered by their last token: [V, drafts].
  drawn = jnp.zeros_like(p[:, :1]).at[start].set(1)
  kept = jnp.ones_like(drawn)
  tokens = jnp.ones((), p.dtype)
  possible = q > 0
  ratio = jnp.where(possible, p / jnp.where(possible, q, 1), 0)
  for _ in range(num_speculative_tokens):
    kept = jnp.minimum(1, kept[:, None] * ratio[..., None])
    drawn = drawn[:, None] * q[..., None]  # [last, next, drafts]
    kept = jnp.moveaxis(kept, 1, 0).reshape(p.shape[0], -1)
    drawn = jnp.moveaxis(drawn, 1, 0).reshape(p.shape[0], -1)
    tokens = tokens + (drawn * kept).sum()
  return tokens


def long_run_tokens(
  p: Real[ArrayLike, "V V"],
  q: Real[ArrayLike, "V V"],
  num_speculative_tokens: int,
  rounds: int = 64,
) -> Float[Array, ""]:
  """Tokens a round of the token-wise rule in one long text.

  A round's context is the extra token of the round before it, so rounds begin
  in contexts where the draft has just failed more often than the text visits
  them, and eq. 1 at the mean acceptance is off by a little.

  Args:
    rounds: after which the context has forgotten the first one, drawn evenly.
  """
  p, q = as_floats(p, q)
  kept, left = jnp.minimum(p, q), jnp.maximum(p - q, 0)
  reach, ends = jnp.eye(p.shape[0], dtype=p.dtype), jnp.zeros_like(p)
  tokens = jnp.zeros_like(p[0])
  for _ in range(num_speculative_tokens):
    tokens = tokens + reach.sum(1)
    ends = ends + reach @ left  # refused there, and replaced
    reach = reach @ kept
  tokens, ends = tokens + reach.sum(1), ends + reach @ p
  context = jnp.full_like(tokens, 1 / p.shape[0])
  for _ in range(rounds):
    context = context @ ends
  return context @ tokens / context.sum()
