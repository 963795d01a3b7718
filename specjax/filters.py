"""Filters of a law: each is one cutoff on the scaled logits of a row.

The vocabulary is never sorted. The few largest logits mostly hold the cutoff;
where a row's do not, it is bisected over the bits of the float, where order is
the order of integers. Which way a row goes depends on that row alone.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from specjax.types import Sampling

CANDIDATES = 128
_INF_BITS = 0x7F800000


def largest(
  x: Float[Array, "*b V"], k: int
) -> tuple[Float[Array, "*b k"], Int[Array, "*b k"]]:
  """The k largest entries and their places, of equal ones the first first.

  Behind a barrier: a slice of the result, met by the compiler, turns the search
  into a sort of all V, which takes a hundred times as long on a CPU.
  """
  top, places = jax.lax.optimization_barrier(jax.lax.top_k(x, k))
  return top, places


def cutoffs(
  scaled: Float[Array, "B U V"], sampling: Sampling
) -> Float[Array, "B U"]:
  """Least scaled logit that is kept.

  In transformers' order: top-k, top-p on what top-k left, min-p. Ties at a
  cutoff are kept.

  Args:
    scaled: logits over temperature, shifted so that a row's largest is 0.
    sampling: settings a row.
  """
  uses, vocab = sampling.uses, scaled.shape[-1]
  cutoff = jnp.full(scaled.shape[:2], -jnp.inf)
  if not uses & {"top_k", "top_p"}:
    return _min_p(cutoff, sampling)
  best, _ = largest(scaled, min(CANDIDATES, vocab))
  if "top_k" in uses:
    k = jnp.where(sampling.top_k > 0, sampling.top_k, vocab)
    k = jnp.broadcast_to(jnp.minimum(k, vocab)[:, None], cutoff.shape)
    index = jnp.minimum(k, best.shape[-1]) - 1
    kth = jnp.take_along_axis(best, index[..., None], -1)[..., 0]
    kth = _unless_bisected(
      kth,
      (k <= best.shape[-1]) | (k == vocab),
      lambda: _bisect(scaled, lambda kept: kept.sum(-1) >= k),
    )
    cutoff = jnp.where(k < vocab, kth, cutoff)
  if "top_p" in uses:
    weight = jnp.where(scaled >= cutoff[..., None], jnp.exp(scaled), 0.0)
    need = sampling.top_p[:, None] * weight.sum(-1)
    off = jnp.broadcast_to(sampling.top_p[:, None] >= 1.0, cutoff.shape)
    enough = jnp.cumsum(jnp.exp(best), -1) >= need[..., None]
    index = jnp.argmax(enough, -1)[..., None]
    nucleus = _unless_bisected(
      jnp.take_along_axis(best, index, -1)[..., 0],
      enough[..., -1] | off,
      lambda: _bisect(
        scaled, lambda kept: jnp.where(kept, weight, 0.0).sum(-1) >= need
      ),
    )
    cutoff = jnp.where(off, cutoff, jnp.maximum(cutoff, nucleus))
  return _min_p(cutoff, sampling)


def _min_p(cutoff, sampling: Sampling):
  if "min_p" not in sampling.uses:
    return cutoff
  return jnp.maximum(cutoff, jnp.log(sampling.min_p)[:, None])


def _unless_bisected(
  found: Float[Array, "B U"], holds: Bool[Array, "B U"], bisect
) -> Float[Array, "B U"]:
  """`found` where it holds; the bisection runs only where some row needs it."""
  return jax.lax.cond(
    holds.all(), lambda: found, lambda: jnp.where(holds, found, bisect())
  )


def _bisect(scaled: Float[Array, "B U V"], enough) -> Float[Array, "B U"]:
  """Largest cutoff c such that `enough(scaled >= c)`, to the bit.

  For x <= 0 the bits of -x are an integer that grows as x falls.
  """
  depth = jax.lax.bitcast_convert_type(jnp.abs(scaled), jnp.int32)

  def halve(_, bounds):
    low, high = bounds  # enough at high, not below low
    mid = low + (high - low) // 2
    holds = enough(depth <= mid[..., None])
    return jnp.where(holds, low, mid + 1), jnp.where(holds, mid, high)

  low = jnp.zeros(scaled.shape[:2], jnp.int32)
  high = jnp.full(scaled.shape[:2], _INF_BITS, jnp.int32)
  _, high = jax.lax.fori_loop(0, 31, halve, (low, high))
  return -jax.lax.bitcast_convert_type(high, jnp.float32)
