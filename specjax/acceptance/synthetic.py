"""Acceptance at a chosen rate, to measure what a system costs at it; lossy.

vLLM calls its like `synthetic`. Whether a node is kept has nothing to do with
either law, so the text is of no use.
"""

import dataclasses

import jax.numpy as jnp

from specjax import sampling
from specjax.types import Law, Proposal, Streams, Verdict


@dataclasses.dataclass(frozen=True)
class LossySynthetic:
  """Keeps node i of a chain with a given probability, once those before it are.

  At one rate a for all nodes a round of g nodes emits (1 - a^(g+1)) / (1 - a)
  tokens (Leviathan et al. 2023, arXiv 2211.17192, eq. 1). The extra token is
  drawn from the target's law.

  Attributes:
    acceptance_rate: of every node, or one a position, the last of which counts
      for all after it. None reads `Proposal.aux`, [#B N]: rates that the
      drafter states, so that one program serves for all of them.
  """

  acceptance_rate: float | tuple[float, ...] | None = 0.7
  name = "lossy_synthetic"
  supports = frozenset({"chain"})
  lossless_for = frozenset()
  needs = "its rate is that of one node a depth"

  def __post_init__(self):
    if self.acceptance_rate is None:
      return
    if not self._rates or not all(0.0 <= x <= 1.0 for x in self._rates):
      raise ValueError(
        "acceptance_rate must be one or more numbers in [0, 1], got"
        f" {self.acceptance_rate}"
      )

  @property
  def _rates(self) -> tuple[float, ...]:
    rate = self.acceptance_rate
    return rate if isinstance(rate, tuple) else (rate or 0.0,)

  def __call__(self, proposal: Proposal, p: Law, keys: Streams) -> Verdict:
    nodes = proposal.nodes
    batch, size = nodes.tokens.shape[0], nodes.num_judged
    index = jnp.broadcast_to(jnp.arange(size, dtype=jnp.int32), (batch, size))
    if self.acceptance_rate is None:
      if proposal.aux is None:
        raise ValueError("the drafter states no acceptance rates in its aux")
      rates = jnp.asarray(proposal.aux)[:, :size]
    else:
      places = jnp.minimum(index, len(self._rates) - 1)
      rates = jnp.asarray(self._rates, jnp.float32)[places]
    u = sampling.round_uniform(keys, sampling.Purpose.ACCEPT, index)
    kept = (u < rates) & (index < nodes.count[:, None])
    accepted = jnp.cumprod(kept.astype(jnp.int32), 1).sum(1)
    u = sampling.round_uniform(
      keys, sampling.Purpose.RECOVER, accepted[:, None]
    )
    slots = jnp.minimum(jnp.arange(size + 1)[None], accepted[:, None])
    return Verdict(
      slots=slots.astype(jnp.int32),
      accepted=accepted,
      next_token=sampling.inverse_cdf(sampling.dense(p, accepted), u[:, 0]),
    )
