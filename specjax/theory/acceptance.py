"""Acceptance of one drafted token from the two laws at its position.

Laws are on the last axis, vocabulary V, each summing to 1. Leviathan et al.
2023 (arXiv 2211.17192); alpha is the mean of these over contexts.
"""

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Real

from specjax.theory.arrays import as_floats, last_axis


def acceptance(
  p: Real[ArrayLike, "*#s V"], q: Real[ArrayLike, "*#s V"]
) -> Float[Array, "*s"]:
  """sum min(p, q): of the exact rejection rule (theorem 3.5)."""
  p, q = as_floats(p, q)
  return jnp.minimum(p, q).sum(-1)


def divergence(
  p: Real[ArrayLike, "*#s V"], q: Real[ArrayLike, "*#s V"]
) -> Float[Array, "*s"]:
  """D_LK = sum |p - (p + q) / 2|, the total variation (definition 3.2).

  One minus the acceptance of the exact rule (lemma 3.3).
  """
  p, q = as_floats(p, q)
  return jnp.abs(p - (p + q) / 2).sum(-1)


def residual(
  p: Real[ArrayLike, "*#s V"], q: Real[ArrayLike, "*#s V"]
) -> Float[Array, "*s V"]:
  """norm(max(0, p - q)), what a refused token is replaced from (section 2.3).

  p itself where nothing is left: the two laws are equal.
  """
  p, q = as_floats(p, q)
  left = jnp.maximum(p - q, 0)
  mass = left.sum(-1, keepdims=True)
  return jnp.where(mass > 0, left / jnp.where(mass > 0, mass, 1), p)


def exact_match_acceptance(
  p: Real[ArrayLike, "*#s V"], q: Real[ArrayLike, "*#s V"]
) -> Float[Array, "*s"]:
  """sum p q: a draft token is kept where the target's own sample equals it.

  Never more than the exact rejection rule's. A draft that proposes its most
  likely token has q one-hot.
  """
  p, q = as_floats(p, q)
  return (p * q).sum(-1)


def single_test_acceptance(
  p: Real[ArrayLike, "*#s V"], q: Real[ArrayLike, "*#s V"]
) -> Float[Array, "*s"]:
  """Of rejection sampling proper: min q / p over the target's support.

  It tests with p / (M q), M = max p / q, and draws from p where that fails
  (appendix A.2); at most the exact rule's acceptance.
  """
  p, q = as_floats(p, q)
  inside = p > 0
  ratio = jnp.where(inside, q / jnp.where(inside, p, 1), jnp.inf)
  return ratio.min(-1)


def lenient_acceptance(
  p: Real[ArrayLike, "*#s V"],
  q: Real[ArrayLike, "*#s V"],
  lenience: Real[ArrayLike, "*#s"],
) -> Float[Array, "*s"]:
  """sum min(p / l, q): the test uses l * q (appendix A.5; lossy below 1).

  Args:
    lenience: l, in (0, 1]; 1 is exact.
  """
  p, q, lenience = as_floats(p, q, lenience)
  return jnp.minimum(p / last_axis(lenience), q).sum(-1)


def lenient_law(
  p: Real[ArrayLike, "*#s V"],
  q: Real[ArrayLike, "*#s V"],
  lenience: Real[ArrayLike, "*#s"],
) -> Float[Array, "*s V"]:
  """What the lenient rule puts out, its residual being norm(max(0, p - l q)).

  At most p / l everywhere (appendix A.5); p itself at l = 1.
  """
  p, q, lenience = as_floats(p, q, lenience)
  lenience = last_axis(lenience)
  kept = jnp.minimum(p / lenience, q)
  refused = 1 - kept.sum(-1, keepdims=True)
  return kept + refused * residual(p, lenience * q)
