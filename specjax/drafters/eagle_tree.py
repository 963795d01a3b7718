"""EAGLE's draft as a tree that each round grows where it is most confident.

EAGLE-2, Li et al. 2024 (arXiv 2406.16858, section 4); the weights are those of
EAGLE or EAGLE-3.
"""

import dataclasses

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, Int

from specjax import trees
from specjax.drafters.eagle import EagleState, OverFeatures
from specjax.filters import largest
from specjax.models import cache as kv_cache
from specjax.models.eagle_config import EagleConfig
from specjax.types import (
  Fresh,
  Nodes,
  Params,
  Proposal,
  Rows,
  Slots,
  Streams,
)


@struct.dataclass
class _Pool:
  """All that was expanded, M candidates; k of a level are fed, the frontier.

      level        1          2               3
      candidates   k          k k             k k
      fed          k          best k of them  best k of them

  A candidate's score is the log of the product of confidences on its way.
  """

  tokens: Int[Array, "B M"]
  scores: Float[Array, "B M"]
  parents: Int[Array, "B M"]  # candidate, or -1 for the root
  depths: Int[Array, "M"]


@struct.dataclass
class _Frontier:
  """The candidates that the next level grows from."""

  index: Int[Array, "B k"]  # in the pool
  tokens: Int[Array, "B k"]
  scores: Float[Array, "B k"]
  hidden: Float[Array, "B k d"]  # what their parents gave
  above: Bool[Array, "B k F"]  # scratch columns of their ancestors


@dataclasses.dataclass(frozen=True)
class EagleTree(OverFeatures):
  """Drafts the `num_nodes` candidates with the best products of confidences.

  A confidence is the draft's probability at temperature 1; tokens are point
  masses, whatever the row's temperature. A parent has at least its children's
  score and stands before them, so what is kept is a tree.

  Attributes:
    config: of the draft.
    num_nodes: N; the published default is 59 beside the root.
    max_depth: levels, at least 1.
    branching: k, children tried of a node and nodes fed of a level.

  Raises:
    ValueError: a size below 1, more nodes than there are candidates.
  """

  config: EagleConfig
  num_nodes: int = 59
  max_depth: int = 7
  branching: int = 10

  siblings = "point"
  num_riders = 0
  reads_logits = False

  def __post_init__(self):
    for name in ("num_nodes", "max_depth", "branching"):
      if getattr(self, name) < 1:
        raise ValueError(
          f"{name} must be at least 1, got {getattr(self, name)}"
        )
    most = self.branching + (self.max_depth - 1) * self.branching**2
    if self.num_nodes > most:
      raise ValueError(
        f"a tree of depth {self.max_depth} with {self.branching} children a"
        f" node has {most} candidates, fewer than num_nodes={self.num_nodes}"
      )

  @property
  def widths(self) -> tuple[int, ...]:
    return (1, 1 + self.num_nodes)

  def propose(
    self,
    params: Params,
    state: EagleState,
    rows: Rows,
    budget: Int[Array, "B"],
    keys: Streams,
  ) -> tuple[Proposal, EagleState]:
    budget = self._room(state, budget)
    pool = jax.lax.cond(
      (budget > 0).any(),
      lambda: self._grow(params, state, budget),
      lambda: self._nothing(budget.shape[0]),
    )
    return Proposal(self._best(pool, budget)), state

  def _nothing(self, batch: int) -> _Pool:
    size, wide = self.branching, self.branching**2
    levels = [1] * size
    for depth in range(2, self.max_depth + 1):
      levels += [depth] * wide
    empty = jnp.zeros((batch, len(levels)), jnp.int32)
    return _Pool(
      tokens=empty,
      scores=jnp.full(empty.shape, -jnp.inf),
      parents=empty - 1,
      depths=jnp.asarray(levels, jnp.int32),
    )

  def _grow(
    self, params: Params, state: EagleState, budget: Int[Array, "B"]
  ) -> _Pool:
    """Level after level, up to the largest budget."""
    batch, k = budget.shape[0], self.branching
    visible = kv_cache.hide_done(state.cache, budget > 0)
    fed = max((self.max_depth - 1) * k, 1)
    root = state.hidden[:, None]
    tokens, scores = self._likeliest(params, root)
    first = jnp.broadcast_to(jnp.arange(k, dtype=jnp.int32), (batch, k))
    pool = self._nothing(batch)
    pool = dataclasses.replace(
      pool,
      tokens=pool.tokens.at[:, :k].set(tokens[:, 0]),
      scores=pool.scores.at[:, :k].set(scores[:, 0]),
    )
    frontier = _Frontier(
      index=first,
      tokens=tokens[:, 0],
      scores=scores[:, 0],
      hidden=jnp.broadcast_to(root, (batch, k, root.shape[-1])),
      above=jnp.zeros((batch, k, fed), bool),
    )
    scratch = Fresh(self._head.init_cache(batch, fed).layers)

    def deepen(level: Int[Array, ""], carry):
      """Feeds the frontier of a level and expands each of its nodes."""
      pool, frontier, scratch = carry
      itself = jnp.broadcast_to(jnp.eye(k, dtype=bool), (batch, k, k))
      position = (state.cache.length - 1 + level)[:, None]
      slots = Slots(
        tokens=frontier.tokens,
        positions=jnp.broadcast_to(position, (batch, k)),
        mask=jnp.concatenate([frontier.above, itself], -1),
      )
      hidden, fresh = self._head.feed(
        params.draft, slots, frontier.hidden, visible, scratch
      )
      put = jax.lax.dynamic_update_slice_in_dim
      column = (level - 1) * k
      scratch = jax.tree.map(
        lambda all, new: put(all, new, column, 2), scratch, fresh
      )
      tokens, scores = self._likeliest(params, hidden)
      scores = scores + frontier.scores[..., None]
      start = k + (level - 1) * k * k
      flat = (batch, k * k)
      parents = jnp.repeat(frontier.index, k, 1)
      pool = dataclasses.replace(
        pool,
        tokens=put(pool.tokens, tokens.reshape(flat), start, 1),
        scores=put(pool.scores, scores.reshape(flat), start, 1),
        parents=put(pool.parents, parents, start, 1),
      )
      best, at = largest(scores.reshape(flat), k)
      parent = at // k  # in the frontier that was fed
      own = jnp.arange(fed)[None, None] == column + parent[..., None]
      above = jnp.take_along_axis(frontier.above, parent[..., None], 1)
      frontier = _Frontier(
        index=(start + at).astype(jnp.int32),
        tokens=jnp.take_along_axis(tokens.reshape(flat), at, 1),
        scores=best,
        hidden=jnp.take_along_axis(hidden, parent[..., None], 1),
        above=above | own,
      )
      return pool, frontier, scratch

    carry = (pool, frontier, scratch)
    return jax.lax.fori_loop(1, budget.max(), deepen, carry)[0]

  def _likeliest(
    self, params: Params, hidden: Float[Array, "B n d"]
  ) -> tuple[Int[Array, "B n k"], Float[Array, "B n k"]]:
    """The likeliest tokens after each state, and their log-probabilities.

    Where the draft says fewer than k tokens the rest has no probability.
    """
    logits = self._head.logits(params.draft, hidden)
    size = min(self.branching, logits.shape[-1])
    scores, tokens = largest(jax.nn.log_softmax(logits, -1), size)
    extra = ((0, 0), (0, 0), (0, self.branching - size))
    scores = jnp.pad(scores, extra, constant_values=-jnp.inf)
    tokens = jnp.pad(tokens.astype(jnp.int32), extra)
    if params.draft.token_ids is not None:
      tokens = jnp.take(params.draft.token_ids, tokens)
    return tokens, scores

  def _best(self, pool: _Pool, budget: Int[Array, "B"]) -> Nodes:
    """The best N candidates, as nodes in the pool's order.

    Of equal scores the earlier candidate wins, which is the parent.
    """
    batch, size = pool.tokens.shape
    there = pool.depths[None] <= budget[:, None]
    none = jnp.zeros((batch,), jnp.int32)
    nodes = Nodes(
      tokens=pool.tokens,
      parents=pool.parents + 1,
      count=none,
      rider_count=none,
      num_judged=size,
      max_depth=self.max_depth,
    )
    scores = jnp.where(there, pool.scores, -jnp.inf)
    return trees.best_nodes(nodes, scores, self.num_nodes)
