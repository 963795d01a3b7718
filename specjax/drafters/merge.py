"""What several drafters propose, in one tree."""

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from specjax import trees
from specjax.drafters.combination import Combination, CombinedState, share
from specjax.types import Drafter, Nodes, Params, Proposal, Rows, Streams


@dataclasses.dataclass(frozen=True)
class Merge(Combination):
  """Every part's nodes in every round, merged by prefix.

  All nodes are point masses and no law is kept, which is exact however they
  were found: given the tree, a rule for point masses emits from the target's
  law. So a part's own q is dropped, and with it what a rule could gain by it.
  Among siblings those of earlier parts come first.

  Attributes:
    drafters: at least one.
  """

  drafters: tuple[Drafter, ...]

  siblings = "point"

  @property
  def num_nodes(self) -> int:
    return sum(part.num_nodes for part in self.drafters)

  @property
  def widths(self) -> tuple[int, ...]:
    """Without nodes, with as many as one part has, and with all."""
    most = max(part.num_nodes for part in self.drafters)
    all_nodes = 1 + self.num_nodes
    return tuple(sorted({1, 1 + most, all_nodes, all_nodes + self.num_riders}))

  def propose(
    self,
    params: Params,
    state: CombinedState,
    rows: Rows,
    budget: Int[Array, "B"],
    keys: Streams,
  ) -> tuple[Proposal, CombinedState]:
    proposals, parts = [], []
    each = zip(self.drafters, state.parts, strict=True)
    for index, (part, own) in enumerate(each):
      proposal, own = part.propose(
        self._params(params, index),
        own,
        rows,
        jnp.minimum(budget, part.max_depth),
        keys,
      )
      proposals.append(proposal)
      parts.append(own)
    forest, there = self._side_by_side([p.nodes for p in proposals])
    merged = trees.merge_siblings(forest, there)
    judged, riders = jnp.split(merged.slots, [1 + self.num_nodes], 1)
    shares, start = [], 1
    for proposal in proposals:
      end = start + proposal.nodes.num_judged
      slots = [judged[:, :1], judged[:, start:end]]
      if proposal.nodes.tokens.shape[1] > proposal.nodes.num_judged:
        slots.append(riders)
      shares.append(share(proposal, jnp.concatenate(slots, 1)))
      start = end
    state = CombinedState(tuple(parts), tuple(shares))
    return Proposal(merged.nodes), state

  def _side_by_side(
    self, each: list[Nodes]
  ) -> tuple[Nodes, Bool[Array, "B N"]]:
    """(the parts' judged nodes one after another and the riders, what lives).

    own slots     0 | judged      | riders
    in the whole  0 | start + own | end + own
    """
    judged, riding, living, riders_living = [], [], [], []
    start, total = 0, self.num_nodes
    for nodes in each:
      own = nodes.num_judged
      parents = jnp.broadcast_to(nodes.parents, nodes.tokens.shape)
      place = jnp.where(parents > own, parents - own + total, parents + start)
      place = jnp.where(parents > 0, place, 0)
      live = trees.live(nodes)
      judged.append((nodes.tokens[:, :own], place[:, :own]))
      riding.append((nodes.tokens[:, own:], place[:, own:]))
      living.append(live[:, :own])
      riders_living.append(live[:, own:])
      start += own
    tokens, parents = (
      jnp.concatenate(all, 1) for all in zip(*judged, *riding, strict=True)
    )
    nodes = Nodes(
      tokens=tokens,
      parents=parents,
      count=sum((nodes.count for nodes in each[1:]), each[0].count),
      rider_count=sum((n.rider_count for n in each[1:]), each[0].rider_count),
      num_judged=total,
      max_depth=self.max_depth,
    )
    return nodes, jnp.concatenate([*living, *riders_living], 1)
