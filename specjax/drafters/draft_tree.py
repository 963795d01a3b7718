"""A draft model proposes a tree: several tokens after each node.

SpecInfer (Miao et al. 2024, arXiv 2305.09781) draws siblings independently, RSD
(Jeon et al. 2024, arXiv 2402.14160) and Sequoia (Chen et al. 2024, arXiv
2402.12374) without replacement, EAGLE's trees take the likeliest ones.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from specjax import passes, sampling, topologies
from specjax.drafters.draft_model import (
  HEAD,
  DraftState,
  catch_up,
  empty_state,
  feed_end,
  own_kept,
)
from specjax.drafters.tree import Tree, draw_children
from specjax.models import cache as kv_cache
from specjax.topologies import Topology
from specjax.types import (
  Feedback,
  Law,
  Model,
  Params,
  Pass,
  Proposal,
  Rows,
  Slots,
  Streams,
)

_SIBLINGS = ("iid", "without_replacement", "point")


@dataclasses.dataclass(frozen=True)
class DraftTree(Tree):
  """Drafts a tree with `model`, level by level, one pass of it a level.

  Weights are `Params.draft`. Only nodes with children are fed, those of a level
  together; a kept node that was not fed is the first of the next round, as with
  a chain.

  Attributes:
    model: the draft.
    tree: its shape.
    siblings: "iid", "without_replacement" or "point"; see `draw_children`.
  """

  model: Model
  tree: Topology = topologies.expansion((3, 2, 1, 1))
  siblings: str = "without_replacement"

  def __post_init__(self):
    if self.siblings not in _SIBLINGS:
      raise ValueError(
        f"siblings must be one of {', '.join(_SIBLINGS)}, got {self.siblings!r}"
      )

  @property
  def _fed(self) -> list[int]:
    """Nodes with children, in level order; column HEAD + i is the i-th's."""
    return [node for node in range(self.num_nodes) if self._has_child(node)]

  def _has_child(self, node: int) -> bool:
    return node + 1 in self.tree.parents

  @property
  def _columns(self) -> int:
    return HEAD + len(self._fed)

  def init(self, params: Params, batch: int, capacity: int) -> DraftState:
    return empty_state(self.model, params, batch, capacity, self._columns)

  def observe(
    self, params: Params, state: DraftState, seen: Feedback
  ) -> DraftState:
    if seen.slots is None:
      cache, _ = passes.feed_text(
        self.model, params.draft, seen.inputs, state.cache, seen.count
      )
      return dataclasses.replace(state, cache=cache)
    # slots        0 s1 s2 s3 ...          kept path, the deepest node repeats
    # scratch  text |   of those that were fed, all but the last of a path
    column = np.full(self.num_nodes + 1, -1, np.int32)
    column[np.asarray(self._fed, int) + 1] = np.arange(HEAD, self._columns)
    path = jnp.asarray(column)[seen.slots[:, 1:]]
    depth = jnp.arange(path.shape[1])[None]
    kept = depth < jnp.minimum(own_kept(seen), state.steps)[:, None]
    fed = jnp.cumprod(kept & (path >= 0), 1).sum(1)
    index = jnp.arange(self.max_depth + 1, dtype=jnp.int32)[None]
    ready = state.ready[:, None]
    text = jnp.broadcast_to(index, (path.shape[0], index.shape[1]))
    at = jnp.clip(index - ready, 0, path.shape[1] - 1)
    node = jnp.maximum(jnp.take_along_axis(path, at, 1), 0)
    return dataclasses.replace(
      state,
      cache=kv_cache.commit(
        state.cache,
        state.scratch,
        jnp.where(index < ready, text, node),
        jnp.where(seen.count > 0, state.ready + fed, 0),
      ),
    )

  def propose(
    self,
    params: Params,
    state: DraftState,
    rows: Rows,
    budget: Int[Array, "B"],
    keys: Streams,
  ) -> tuple[Proposal, DraftState]:
    room = self.model.max_positions - rows.length + 1
    budget = jnp.clip(budget, 0, jnp.maximum(room, 0))
    cache = catch_up(
      self.model, params, state.cache, rows, budget, self._columns
    )
    longest, drafts = budget.max(), budget > 0
    # A row that drafts nothing never makes the others feed a second token.
    ready = jnp.minimum(rows.length - cache.length, jnp.where(drafts, HEAD, 1))
    ready = jnp.where(longest > 0, ready, 0)
    visible = kv_cache.hide_done(cache, rows.active)
    put = jax.lax.dynamic_update_slice_in_dim

    def draw(slots: list[int], run: Pass, carry):
      """Draws the children of the slots that were read out."""
      tokens, q, scratch = carry
      law = sampling.make_law(run.logits, rows.sampling)
      drawn = draw_children(
        self.tree, self.siblings, slots, run.logits, law, keys
      )
      first = self.tree.children(slots[0])[0]
      if q is not None:
        row = self._row(slots[0])
        q = jax.tree.map(lambda rows, new: put(rows, new, row, 1), q, law)
      return put(tokens, drawn, first, 1), q, scratch

    def start(carry):
      run = feed_end(self.model, params, visible, rows, ready)
      tokens, q, scratch = carry
      scratch = jax.tree.map(
        lambda all, new: put(all, new, 0, 2), scratch, run.fresh
      )
      return draw([0], run, (tokens, q, scratch))

    def deepen(nodes: list[int], depth: int, carry):
      """Feeds the nodes of a level that have children."""
      tokens, q, scratch = carry
      here = tokens[:, nodes[0] : nodes[-1] + 1]
      here = here[:, np.asarray(nodes) - nodes[0]]
      position = rows.length - 1 + depth
      slots = Slots(
        tokens=here,
        positions=jnp.broadcast_to(position[:, None], here.shape),
        mask=self._sees(ready, nodes),
      )
      run = self.model(params.draft, slots, visible, scratch=scratch)
      column = HEAD + self._fed.index(nodes[0])
      scratch = jax.tree.map(
        lambda all, new: put(all, new, column, 2), scratch, run.fresh
      )
      return draw([node + 1 for node in nodes], run, (tokens, q, scratch))

    carry = (*self._nothing(budget.shape[0]), state.scratch)
    carry = jax.lax.cond(longest > 0, start, lambda carry: carry, carry)
    for depth in range(1, self.max_depth):
      nodes = [n for n in self.tree.level(depth) if self._has_child(n)]
      carry = jax.lax.cond(
        longest > depth,
        lambda carry, nodes=nodes, depth=depth: deepen(nodes, depth, carry),
        lambda carry: carry,
        carry,
      )
    tokens, q, scratch = carry
    rows_of_q = [self._row(parent) for parent in self.tree.parents]
    proposal = Proposal(
      nodes=self.nodes(tokens, budget),
      q=q,
      q_row=None if q is None else jnp.asarray(rows_of_q, jnp.int32)[None],
    )
    steps = jnp.where(drafts, longest - 1, 0)
    return proposal, DraftState(cache, scratch, ready, steps)

  def _row(self, slot: int) -> int:
    """Row of q that the children of a slot are drawn from."""
    return 1 + self._fed.index(slot - 1) if slot else 0

  def _nothing(self, batch: int):
    """(tokens, q) before anything is drawn."""
    tokens = jnp.zeros((batch, self.num_nodes), jnp.int32)
    if self.siblings == "point":
      return tokens, None
    size = 1 + len(self._fed)
    row = jnp.zeros((batch, size))
    return tokens, Law(
      jnp.zeros((batch, size, self.model.vocab_size)), row, row
    )

  def _sees(
    self, ready: Int[Array, "B"], nodes: list[int]
  ) -> Bool[Array, "B n _"]:
    """Scratch columns of text and of a node's ancestors, then itself."""
    paths = self.tree.paths
    above = np.zeros((len(nodes), self._columns), bool)
    for column, other in enumerate(self._fed, HEAD):
      for row, node in enumerate(nodes):
        size = len(paths[other])
        shorter = size < len(paths[node])
        above[row, column] = shorter and paths[node][:size] == paths[other]
    text = jnp.arange(self._columns)[None] < ready[:, None]
    seen = text[:, None] | jnp.asarray(above)[None]
    itself = jnp.eye(len(nodes), dtype=bool)[None]
    itself = jnp.broadcast_to(itself, (seen.shape[0], *itself.shape[1:]))
    return jnp.concatenate([seen, itself], -1)
