"""The first of several drafters that has something to say."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from specjax import sampling
from specjax.drafters.combination import Combination, CombinedState, share
from specjax.types import (
  Drafter,
  Nodes,
  Params,
  Proposal,
  Rows,
  Streams,
)


@dataclasses.dataclass(frozen=True)
class FirstOf(Combination):
  """In each row and round, the proposal of the first part that has nodes.

  Prompt lookup where the text repeats itself, say, and heads elsewhere. A part
  gets a budget of 0 in the rows that an earlier part serves, so that what
  drafts nothing in any row runs nothing.

  Where all parts draft chains the whole is one, and its q stays what each node
  was drawn from: a part's own law, or the point mass of a part that states
  none. That keeps every rule for chains exact: whether a part has nodes is
  known before it draws any of them, so among the tokens that could have been
  drawn none changes who proposes. A part that looked at what it drew and then
  withdrew all of it would break this; the budget is what it may cut by.

  Where a part branches the whole is a tree of point masses, without q.

  Attributes:
    drafters: at least one, in the order in which they are asked.
  """

  drafters: tuple[Drafter, ...]

  @property
  def siblings(self) -> str:
    chains = all(part.siblings == "chain" for part in self.drafters)
    return "chain" if chains else "point"

  @property
  def num_nodes(self) -> int:
    return max(part.num_nodes for part in self.drafters)

  @property
  def widths(self) -> tuple[int, ...]:
    each = {1, *(1 + part.num_nodes for part in self.drafters)}
    return tuple(sorted(each | {1 + self.num_nodes + self.num_riders}))

  def propose(
    self,
    params: Params,
    state: CombinedState,
    rows: Rows,
    budget: Int[Array, "B"],
    keys: Streams,
  ) -> tuple[Proposal, CombinedState]:
    left, proposals, parts = budget, [], []
    each = zip(self.drafters, state.parts, strict=True)
    for index, (part, own) in enumerate(each):
      wanted = jnp.minimum(left, part.max_depth)
      proposal, own = part.propose(
        self._params(params, index), own, rows, wanted, keys
      )
      left = jnp.where(proposal.nodes.count > 0, 0, left)
      proposals.append(proposal)
      parts.append(own)
    shares = tuple(
      share(proposal, self._slots(proposal.nodes)) for proposal in proposals
    )
    q, q_row = self._law(proposals)
    whole = Proposal(self._nodes(proposals), q, q_row)
    return whole, CombinedState(tuple(parts), shares)

  def _slots(self, nodes: Nodes) -> Int[Array, "B w"]:
    """Where the slots of a part stand: judged nodes only where it is used."""
    judged = nodes.num_judged
    own = jnp.arange(1 + nodes.tokens.shape[1], dtype=jnp.int32)[None]
    there = (own == 0) | (own > judged) | (nodes.count > 0)[:, None]
    return jnp.where(there, self._place(own, judged), -1)

  def _place(self, slot: Int[Array, "..."], judged: int) -> Int[Array, "..."]:
    """Of a slot of a part that has `judged` nodes; riders stand behind all."""
    return jnp.where(slot > judged, slot + self.num_nodes - judged, slot)

  def _nodes(self, proposals: list[Proposal]) -> Nodes:
    size, batch = self.num_nodes, proposals[0].nodes.count.shape[0]
    tokens = jnp.zeros((batch, size), jnp.int32)
    parents = jnp.arange(size, dtype=jnp.int32)[None]
    count = jnp.zeros((batch,), jnp.int32)
    for nodes in (proposal.nodes for proposal in proposals):
      judged, used = nodes.num_judged, (nodes.count > 0)[:, None]
      extra = ((0, 0), (0, size - judged))
      tokens = jnp.where(used, jnp.pad(nodes.tokens[:, :judged], extra), tokens)
      if self.siblings != "chain":
        own = jnp.pad(nodes.parents[:, :judged], extra)
        parents = jnp.where(used, own, parents)
      count = count + nodes.count
    none = jnp.zeros((batch,), jnp.int32)
    whole = Nodes(tokens, parents, count, none, size, self.max_depth)
    for part, proposal in zip(self.drafters, proposals, strict=True):
      if part.num_riders:
        return self._with_riders(whole, proposal.nodes)
    return whole

  def _with_riders(self, whole: Nodes, riding: Nodes) -> Nodes:
    """Riders hang from judged nodes of their own part only where it is used."""
    judged = riding.num_judged
    below = self._place(riding.parents[:, judged:], judged)
    batch, number = riding.tokens[:, judged:].shape
    below = jnp.broadcast_to(below, (batch, number))
    above = jnp.broadcast_to(whole.parents, whole.tokens.shape)
    tokens = [whole.tokens, riding.tokens[:, judged:]]
    return dataclasses.replace(
      whole,
      tokens=jnp.concatenate(tokens, 1),
      parents=jnp.concatenate([above, below], 1),
      rider_count=riding.rider_count,
    )

  def _law(self, proposals: list[Proposal]):
    """(q, q_row): all parts' laws side by side; of each row the used one's.

    Raises:
      ValueError: laws over different numbers of tokens.
    """
    sizes = {p.q.scaled.shape[-1] for p in proposals if p.q is not None}
    if self.siblings != "chain" or not sizes:
      return None, None
    if len(sizes) > 1:
      raise ValueError(
        f"the parts of {type(self).__name__} draw from"
        f" {' and '.join(map(str, sorted(sizes)))} tokens: wrap the models in"
        " Resized"
      )
    laws, start = [], 0
    batch = proposals[0].nodes.count.shape[0]
    row = jnp.zeros((batch, self.num_nodes), jnp.int32)
    for nodes, q, own in ((p.nodes, p.q, p.q_row) for p in proposals):
      judged = nodes.num_judged
      if q is None or own is None:
        q = sampling.point_masses(nodes.tokens[:, :judged], *sizes)
        own = jnp.arange(judged, dtype=jnp.int32)[None]
      own = jnp.pad(own[:, :judged], ((0, 0), (0, self.num_nodes - judged)))
      row = jnp.where((nodes.count > 0)[:, None], start + own, row)
      laws.append(q)
      start += q.scaled.shape[1]
    q = jax.tree.map(lambda *each: jnp.concatenate(each, 1), *laws)
    return q, row
