"""Draft lengths for a batch: goodput, and models of step time that it needs."""

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int, Real

from specjax.theory.arrays import append_axis, as_floats
from specjax.theory.speedup import tokens_per_pass


def linear_step_seconds(
  context_tokens: Real[ArrayLike, "*#s"],
  batched_tokens: Real[ArrayLike, "*#s"],
  per_context_token: Real[ArrayLike, "*#s"],
  per_batched_token: Real[ArrayLike, "*#s"],
  fixed: Real[ArrayLike, "*#s"],
) -> Float[Array, "*s"]:
  """a * N_context + b * N_batched + c, seconds of one forward pass.

  SmartSpec (Liu et al. 2024, arXiv 2406.14066).

  Args:
    context_tokens: in the cache, over the whole batch.
    batched_tokens: that the pass runs, over the whole batch.
  """
  context, batched, a, b, c = as_floats(
    context_tokens, batched_tokens, per_context_token, per_batched_token, fixed
  )
  return a * context + b * batched + c


def goodput(
  acceptance: Real[ArrayLike, "*#s B"],
  num_speculative_tokens: Real[ArrayLike, "*#s B"],
  step_seconds: Real[ArrayLike, "*#s"],
) -> Float[Array, "*s"]:
  """Tokens kept a second, over the B rows of a batch (SmartSpec).

  Args:
    acceptance: each row's, a moving average.
    num_speculative_tokens: each row's draft length; 0 is a plain row.
    step_seconds: of drafting and of the target's pass together.
  """
  tokens = tokens_per_pass(acceptance, num_speculative_tokens).sum(-1)
  tokens, seconds = as_floats(tokens, step_seconds)
  return tokens / seconds


def best_length(
  acceptance: Real[ArrayLike, "*s B"], step_seconds: Real[ArrayLike, "*s K"]
) -> tuple[Int[Array, "*s"], Float[Array, "*s"]]:
  """The one draft length of a batch with the most goodput, and that goodput.

  Args:
    step_seconds: of drafting and verifying at lengths 0 to K - 1.
  """
  alpha, seconds = as_floats(acceptance, step_seconds)
  lengths = jnp.arange(seconds.shape[-1], dtype=alpha.dtype)
  alpha, lengths = append_axis(alpha, lengths)
  tokens = tokens_per_pass(alpha, lengths).sum(-2)
  rates = tokens / seconds
  return jnp.argmax(rates, -1).astype(jnp.int32), rates.max(-1)


def accepted_by_power_law(
  num_speculative_tokens: Real[ArrayLike, "*#s"],
  factor: Real[ArrayLike, "*#s"] = 0.9,
  exponent: Real[ArrayLike, "*#s"] = 0.548,
) -> Float[Array, "*s"]:
  """l(s) = factor * s^exponent, draft tokens kept of s.

  Su, Giannoula, Pekhimenko 2023 (arXiv 2310.18813); the defaults are
  their fit.
  """
  length, factor, exponent = as_floats(num_speculative_tokens, factor, exponent)
  return factor * length**exponent


def seconds_per_token(
  accepted: Real[ArrayLike, "*#s"],
  num_speculative_tokens: Real[ArrayLike, "*#s"],
  draft_seconds: Real[ArrayLike, "*#s"],
  verify_seconds: Real[ArrayLike, "*#s"],
) -> Float[Array, "*s"]:
  """(s t_S(b, 1) + t_L(b, s + 1)) / (l(s) + 1), of each row of a batch.

  Su et al. 2023. Its inverse is the throughput TAR / (lookahead t_d
  + t_v) of Yan, Agarwal, Venkataraman 2024 (arXiv 2402.01528).

  Args:
    accepted: draft tokens kept a pass, without the extra one.
  """
  accepted, length, draft, verify = as_floats(
    accepted, num_speculative_tokens, draft_seconds, verify_seconds
  )
  return (length * draft + verify) / (accepted + 1)


def latency_under_load(
  idle_seconds: Real[ArrayLike, "*#s"],
  requests_per_second: Real[ArrayLike, "*#s"],
  busy_seconds: Real[ArrayLike, "*#s"],
) -> Float[Array, "*s"]:
  """C1 / (1 - RPS * C2), seconds of a request; inf or negative past capacity.

  arXiv 2605.15051.

  Args:
    idle_seconds: C1, of a request on an idle machine.
    busy_seconds: C2, of the machine that each request takes.
  """
  idle, rate, busy = as_floats(idle_seconds, requests_per_second, busy_seconds)
  return idle / (1 - rate * busy)
