"""A rule spoilt on purpose, which a test of exactness must catch."""

import dataclasses

import jax.numpy as jnp

from specjax import sampling, trees
from specjax.types import Law, Proposal, Rule, Streams, Verdict


@dataclasses.dataclass(frozen=True)
class Redrawn:
  """Another rule, but after a refusal the next token is drawn from p.

  A refused token so gets a second chance and comes out too often, point masses
  and trees included; where the rule is rejection this is biased_resample. It
  changes nothing where nothing is refused.
  """

  rule: Rule

  lossless_for = frozenset()

  @property
  def name(self) -> str:
    return f"{self.rule.name}, redrawn from p after a refusal"

  @property
  def supports(self) -> frozenset[str]:
    return self.rule.supports

  def __call__(self, proposal: Proposal, p: Law, keys: Streams) -> Verdict:
    verdict = self.rule(proposal, p, keys)
    nodes = proposal.nodes
    size = nodes.num_judged
    last = jnp.take_along_axis(verdict.slots, verdict.accepted[:, None], 1)
    children = nodes.parents[:, :size] == last
    refused = (children & trees.live(nodes)[:, :size]).any(1)
    u = sampling.round_uniform(keys, sampling.Purpose.RECOVER, last)
    redrawn = sampling.inverse_cdf(sampling.dense(p, last[:, 0]), u[:, 0])
    token = jnp.where(refused, redrawn, verdict.next_token)
    return dataclasses.replace(verdict, next_token=token)
