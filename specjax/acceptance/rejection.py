"""Token-wise rejection on a chain, and its biased and lossy variants.

Leviathan, Kalman, Matias 2023 (arXiv 2211.17192), Algorithm 1 and appendix
A.5; Chen et al. 2023 (arXiv 2302.01318), Algorithm 2.
"""

import dataclasses

import jax
import jax.numpy as jnp

from specjax import sampling
from specjax.types import Law, Proposal, Streams, Verdict

_NEEDS = "it tests a node once, against p itself, so a second one with the same"
_NEEDS += (
  " parent would not meet what the first left (recursive_rejection does)"
)


def judge_chain(
  proposal: Proposal,
  p: Law,
  keys: Streams,
  *,
  lenience: float = 1.0,
  recover_from_residual: bool = True,
) -> Verdict:
  """Keeps d_i while u_i * lenience * q_i(d_i) < p_i(d_i), then draws one more.

  The extra token comes from max(0, p_n - q_n), normalised, where the n-th node
  was refused, and from p_n where every node was kept. A node with p = 0 is
  never kept. Where rounding leaves no residual, p_n itself is drawn from.

  Args:
    proposal: a chain of N nodes, q None for point masses.
    p: the target's laws at the N + 1 slots.
    keys: streams ACCEPT (a number a node) and RECOVER (one a round).
    lenience: 1 is exact; below 1 favours the draft (lossy). It scales q in the
      test and in the residual.
    recover_from_residual: False draws from p_n after a refusal (biased).
  """
  nodes = proposal.nodes
  batch, size = nodes.tokens.shape[0], nodes.num_judged
  drafted = nodes.tokens[:, :size]
  index = jnp.broadcast_to(jnp.arange(size, dtype=jnp.int32), (batch, size))
  q, q_row = proposal.q, proposal.q_row
  if q is None:
    q_row = index
    q_drafted = jnp.ones((batch, size))
  else:
    if q_row is None:
      raise ValueError("a proposal with q names each node's row of it: q_row")
    q_row = jnp.broadcast_to(q_row[:, :size], (batch, size))
    q_drafted = sampling.prob(q, q_row, drafted)
  u = sampling.round_uniform(keys, sampling.Purpose.ACCEPT, index)
  p_drafted = sampling.prob(p, index, drafted)
  kept = (u * (lenience * q_drafted) < p_drafted) & (
    index < nodes.count[:, None]
  )
  accepted = jnp.cumprod(kept.astype(jnp.int32), 1).sum(1)

  weights = sampling.dense(p, accepted)
  if recover_from_residual and size:
    refused = jnp.minimum(accepted, size - 1)
    if q is None:
      token = jnp.take_along_axis(drafted, refused[:, None], 1)[:, 0]
      proposed = jax.nn.one_hot(token, weights.shape[-1])
    else:
      row = jnp.take_along_axis(q_row, refused[:, None], 1)[:, 0]
      proposed = sampling.dense(q, row)
    residual = jnp.maximum(weights - lenience * proposed, 0.0)
    use = (accepted < nodes.count) & (residual.sum(-1) > 0.0)
    weights = jnp.where(use[:, None], residual, weights)
  u = sampling.round_uniform(keys, sampling.Purpose.RECOVER, accepted[:, None])
  slots = jnp.minimum(jnp.arange(size + 1)[None], accepted[:, None])
  return Verdict(
    slots=slots.astype(jnp.int32),
    accepted=accepted,
    next_token=sampling.inverse_cdf(weights, u[:, 0]),
  )


@dataclasses.dataclass(frozen=True)
class Rejection:
  """The exact rule: accepts with probability sum(min(p, q))."""

  name = "rejection"
  supports = frozenset({"chain"})
  lossless_for = frozenset({"chain"})
  needs = _NEEDS

  def __call__(self, proposal: Proposal, p: Law, keys: Streams) -> Verdict:
    return judge_chain(proposal, p, keys)


@dataclasses.dataclass(frozen=True)
class BiasedResample:
  """For ablation: after a refusal draws from p, not from the residual.

  Tokens that the draft over-proposes get a second chance and come out too
  often: the output law is not the target's.
  """

  name = "biased_resample"
  supports = frozenset({"chain"})
  lossless_for = frozenset()
  needs = _NEEDS

  def __call__(self, proposal: Proposal, p: Law, keys: Streams) -> Verdict:
    return judge_chain(proposal, p, keys, recover_from_residual=False)


@dataclasses.dataclass(frozen=True)
class LossyLenience:
  """Leviathan et al. A.5: the test uses lenience * q; lossy below 1.

  No token comes out with probability above p(x) / lenience.
  """

  lenience: float = 0.5
  name = "lossy_lenience"
  supports = frozenset({"chain"})
  lossless_for = frozenset()
  needs = _NEEDS

  def __post_init__(self):
    if not 0.0 < self.lenience <= 1.0:
      raise ValueError(f"lenience must be in (0, 1], got {self.lenience}")

  def __call__(self, proposal: Proposal, p: Law, keys: Streams) -> Verdict:
    return judge_chain(proposal, p, keys, lenience=self.lenience)
