"""Where reading the cache, not the weights, sets the time of a pass.

MagicDec (Sadhukhan et al. 2024, arXiv 2408.11049): above a critical context the
cache's reads outgrow the arithmetic of verification at any batch, and
speculation with a draft that reads a part of the cache gains more the larger
the batch. The paper states the condition; the closed form here is that
condition on a two-term roofline (bytes over bandwidth, operations over peak).
"""

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Real

from specjax.theory.arrays import as_floats


def critical_context(
  num_speculative_tokens: Real[ArrayLike, "*#s"],
  operations_per_token: Real[ArrayLike, "*#s"],
  attention_operations: Real[ArrayLike, "*#s"],
  cache_bytes: Real[ArrayLike, "*#s"],
  ridge: Real[ArrayLike, "*#s"],
) -> Float[Array, "*s"]:
  """Tokens of context above which a large batch verifies for free.

  S* solves S * bytes * ridge = (g + 1)(operations + S * attention). Tensor
  parallelism divides both sides and leaves it as it is. inf where each token of
  context costs more arithmetic than reading it does.

  Args:
    num_speculative_tokens: g; 0 gives where plain decoding turns.
    operations_per_token: of the target without attention: 2 a parameter.
    attention_operations: a query and token of context: 4 * layers * heads *
      head size.
    cache_bytes: a token of context.
    ridge: of the device, operations a byte.
  """
  gamma, operations, attention, size, ridge = as_floats(
    num_speculative_tokens,
    operations_per_token,
    attention_operations,
    cache_bytes,
    ridge,
  )
  width = gamma + 1
  room = size * ridge - width * attention
  bounded = room > 0
  context = width * operations / jnp.where(bounded, room, 1)
  return jnp.where(bounded, context, jnp.inf)


def sparse_draft_cost(
  weight_seconds: Real[ArrayLike, "*#s"],
  cache_seconds: Real[ArrayLike, "*#s"],
  kept_share: Real[ArrayLike, "*#s"],
) -> Float[Array, "*s"]:
  """c of a target that drafts for itself with a share of its cache.

  (W + share * C) / (W + C), both steps limited by memory; it falls to the share
  as batch times context grow.

  Args:
    weight_seconds: W, to read the weights.
    cache_seconds: C, to read the cache of the whole batch.
    kept_share: of the context that the draft attends to, in (0, 1].
  """
  weights, cache, share = as_floats(weight_seconds, cache_seconds, kept_share)
  return (weights + share * cache) / (weights + cache)
