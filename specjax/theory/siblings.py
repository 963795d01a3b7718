"""Acceptance of K candidates for one position, by rule.

p and q are laws on the last axis; the candidates are drawn from q. All but
`independent_law` belong to rules whose output law is exactly p.
"""

import functools

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Real

from specjax.theory.acceptance import residual
from specjax.theory.arrays import as_floats, last_axis


def naive_acceptance(
  p: Real[ArrayLike, "*#s V"], q: Real[ArrayLike, "*#s V"], num_candidates: int
) -> Float[Array, "*s"]:
  """sum p (1 - (1 - q)^K): the target's own sample is among the candidates.

  Naive sampling in SpecInfer (Miao et al. 2024, arXiv 2305.09781); at most what
  the recursive rule accepts (its theorem 4.3).
  """
  p, q = as_floats(p, q)
  return (p * (1 - (1 - q) ** num_candidates)).sum(-1)


def top_acceptance(
  p: Real[ArrayLike, "*#s V"], q: Real[ArrayLike, "*#s V"], num_candidates: int
) -> Float[Array, "*s"]:
  """Target mass of the K likeliest tokens of q, each judged as a point mass.

  What EAGLE's released rule accepts: a refused token's p is set to 0.
  """
  p, q = jnp.broadcast_arrays(*as_floats(p, q))
  _, top = jax.lax.top_k(q, min(num_candidates, q.shape[-1]))
  return jnp.take_along_axis(p, top, -1).sum(-1)


def recursive_acceptance(
  p: Real[ArrayLike, "*#s V"], q: Real[ArrayLike, "*#s V"], num_candidates: int
) -> Float[Array, "*s"]:
  """1 - prod(1 - a_i), a_i = sum min(p_i, q): K independent draws in turn.

  Multi-step speculative sampling (SpecInfer, theorem 4.2): p becomes
  norm(max(0, p - q)) after each refusal.
  """
  p, q = as_floats(p, q)
  missed = jnp.ones_like(jnp.minimum(p, q)[..., 0])
  for _ in range(num_candidates):
    missed = missed * (1 - jnp.minimum(p, q).sum(-1))
    p = residual(p, q)
  return 1 - missed


def distinct_acceptance(
  p: Real[ArrayLike, "*#s V"], q: Real[ArrayLike, "*#s V"], num_candidates: int
) -> Float[Array, "*s"]:
  """As `recursive_acceptance`, the candidates drawn without replacement.

  After a refusal q loses the token too and is normalised (Jeon et al. 2024,
  arXiv 2402.14160; Sequoia, arXiv 2402.12374, section 3.2). By enumeration of
  the V^(K - 1) orders of refusal: for small vocabularies. Once q has nothing
  left no further candidate is accepted.
  """
  p, q = jnp.broadcast_arrays(*as_floats(p, q))
  accepted = jnp.minimum(p, q).sum(-1)
  if num_candidates == 1:
    return accepted
  refused = jnp.maximum(q - p, 0)  # of each token
  size = q.shape[-1]
  itself = jnp.eye(size, dtype=bool).reshape((1,) * (q.ndim - 1) + (size, size))
  others = jnp.where(itself, 0, q[..., None, :])
  mass = others.sum(-1, keepdims=True)
  others = jnp.where(mass > 0, others / jnp.where(mass > 0, mass, 1), 0)
  left = jnp.broadcast_to(residual(p, q)[..., None, :], others.shape)
  later = distinct_acceptance(left, others, num_candidates - 1)
  return accepted + (refused * later).sum(-1)


@functools.partial(jax.jit, static_argnames="num_candidates")
def kseq_acceptance(
  p: Real[ArrayLike, "*#s V"], q: Real[ArrayLike, "*#s V"], num_candidates: int
) -> Float[Array, "*s"]:
  """1 - (1 - b)^K of K-SEQ at its best division factor.

  b(r) = sum min(q, p / r), and r in [1, K] solves 1 - (1 - b(r))^K = r b(r), by
  bisection (SpecTr, Sun et al. 2023, arXiv 2310.15141).
  """
  p, q = as_floats(p, q)

  def accept(factor):
    each = jnp.minimum(q, p / last_axis(factor)).sum(-1)
    return each, 1 - (1 - each) ** num_candidates

  def halve(_, bounds):
    low, high = bounds
    middle = (low + high) / 2
    each, total = accept(middle)
    # The law can be repaired while total <= r b(r).
    above = total <= middle * each
    return jnp.where(above, low, middle), jnp.where(above, middle, high)

  low = jnp.ones_like(jnp.minimum(p, q)[..., 0])
  steps = jnp.finfo(low.dtype).nmant + 4
  _, high = jax.lax.fori_loop(0, steps, halve, (low, low * num_candidates))
  return accept(high)[1]


def best_acceptance(
  p: Real[ArrayLike, "*#s V"], q: Real[ArrayLike, "*#s V"], num_candidates: int
) -> Float[Array, "*s"]:
  """The most that any exact rule accepts with K independent draws.

  min over sets S of p(S) + 1 - q(S)^K, the minimum cut of SpecTr's transport
  problem. As x^K is convex, some best S holds the tokens of the least p / q, so
  V + 1 sets are enough (Hu et al. 2025, arXiv 2502.18779).
  """
  p, q = jnp.broadcast_arrays(*as_floats(p, q))
  drawn = q > 0
  ratio = jnp.where(drawn, p / jnp.where(drawn, q, 1), jnp.inf)
  order = jnp.argsort(ratio, -1)
  inside_p = jnp.cumsum(jnp.take_along_axis(p, order, -1), -1)
  inside_q = jnp.cumsum(jnp.take_along_axis(q, order, -1), -1)
  cuts = inside_p + 1 - inside_q**num_candidates
  return jnp.minimum(1, cuts.min(-1))


def independent_law(
  p: Real[ArrayLike, "*#s V"], q: Real[ArrayLike, "*#s V"], num_candidates: int
) -> Float[Array, "*s V"]:
  """Output law of testing K draws against p one by one, p never updated.

  It is not p for K > 1 (SpecTr: a draft that always says 1 against a
  fair coin gives 1 with probability 1 - 2^-K).
  """
  p, q = as_floats(p, q)
  kept = jnp.minimum(p, q)
  refused = 1 - kept.sum(-1, keepdims=True)
  rounds = sum(refused**i for i in range(num_candidates))
  return rounds * kept + refused**num_candidates * residual(p, q)
