"""Medusa's typical acceptance (Cai et al. 2024, arXiv 2401.10774); lossy."""

import dataclasses

import jax.numpy as jnp

from specjax import sampling, trees
from specjax.types import Law, Proposal, Streams, Verdict


@dataclasses.dataclass(frozen=True)
class LossyTypical:
  """Keeps a token that is likely enough for p, however it was found.

  x is kept where p(x) > min(epsilon, delta exp(-H(p))), H the entropy in nats
  of p as it is asked for, temperature and filters included. The longest kept
  path wins, of several the likeliest, and the extra token is drawn from p at
  its end. What the paper always accepts is that token of the round before.
  Where p is one token, as in a greedy row, it alone passes: plain decoding.

  Attributes:
    epsilon: a probability that is always enough; the paper's 0.09.
    delta: of the threshold where p is broad; the paper's is about
      sqrt(epsilon).
  """

  epsilon: float = 0.09
  delta: float = 0.3
  name = "lossy_typical"
  supports = frozenset({"chain", "point", "iid", "without_replacement"})
  lossless_for = frozenset()

  def __post_init__(self):
    if not 0.0 < self.epsilon < 1.0:
      raise ValueError(f"epsilon must be in (0, 1), got {self.epsilon}")
    if not 0.0 < self.delta <= 1.0:
      raise ValueError(f"delta must be in (0, 1], got {self.delta}")

  def __call__(self, proposal: Proposal, p: Law, keys: Streams) -> Verdict:
    nodes = proposal.nodes
    batch, size = nodes.tokens.shape[0], nodes.num_judged
    parents = jnp.broadcast_to(nodes.parents[:, :size], (batch, size))
    law = sampling.dense(p)[:, : size + 1]
    log_law = jnp.log(jnp.where(law > 0.0, law, 1.0))
    entropy = -(law * log_law).sum(-1)
    threshold = jnp.minimum(self.epsilon, self.delta * jnp.exp(-entropy))
    threshold = jnp.take_along_axis(threshold, parents, 1)
    log_prob = sampling.log_prob(p, parents, nodes.tokens[:, :size])
    typical = trees.live(nodes)[:, :size] & (jnp.exp(log_prob) > threshold)

    mask = trees.ancestry(nodes.parents[:, :size], nodes.max_depth)
    passed = jnp.pad(typical, ((0, 0), (1, 0)), constant_values=True)
    kept = (passed[:, None] | ~mask).all(-1)  # with all its ancestors
    depth = jnp.where(kept, trees.depths(mask), -1)
    accepted = depth.max(-1)
    log_prob = jnp.pad(jnp.where(typical, log_prob, 0.0), ((0, 0), (1, 0)))
    along = (log_prob[:, None] * mask).sum(-1)
    longest = depth == accepted[:, None]
    best = jnp.argmax(jnp.where(longest, along, -jnp.inf), -1)
    best = best.astype(jnp.int32)
    u = sampling.round_uniform(
      keys, sampling.Purpose.RECOVER, accepted[:, None]
    )
    return Verdict(
      slots=trees.path_to(mask, best, nodes.max_depth + 1),
      accepted=accepted,
      next_token=sampling.inverse_cdf(sampling.dense(p, best), u[:, 0]),
    )
