"""Rejection of one sibling after another, down a tree; exact for any siblings.

Multi-step speculative sampling of SpecInfer (Miao et al. 2024, arXiv
2305.09781), with replacement; recursive rejection without it of RSD (Jeon et
al. 2024, arXiv 2402.14160) and Sequoia (Chen et al. 2024, arXiv 2402.12374).
"""

import dataclasses

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, Int

from specjax import sampling, trees
from specjax.types import Law, Proposal, Streams, Verdict


@struct.dataclass
class _Walk:
  """Where each row stands, and what is left of p there.

  `left` is not normalised: `mass` is its sum. Neither means anything where
  `fresh`: nothing has been refused below `at`, and p itself is what is left.
  """

  at: Int[Array, "B"]  # the slot of the last kept node
  depth: Int[Array, "B"]
  fresh: Bool[Array, "B"]
  left: Float[Array, "B V"]
  mass: Float[Array, "B"]


@dataclasses.dataclass(frozen=True)
class Recursive:
  """Keeps the first child x with u q(x) < p(x), p less q after each refusal.

  A refusal leaves norm(max(0, p - q)) for the next child of the same node, and
  for the extra token where no child is kept. `Proposal.siblings`, which the
  drafter declares, says what q is then:

    iid                  q, row by row as drawn; equal siblings are judged each
    without_replacement  q without the tokens refused before, normalised; once
                         nothing is left of it the token is a point mass
    point, or q None     the token's point mass: kept with what p gives it,
                         which is nothing where an equal sibling was refused
    chain                there are no siblings: the verdict is Rejection's
  """

  name = "recursive_rejection"
  supports = frozenset({"chain", "point", "iid", "without_replacement"})
  lossless_for = supports

  def __call__(self, proposal: Proposal, p: Law, keys: Streams) -> Verdict:
    """Visits the nodes in order, each row those whose parent it stands at.

    Parents precede children and siblings stand in draw order, so one visit to
    each is the whole walk, whatever the order of the branches. Node i takes
    number i of ACCEPT, visited or not, and the extra token that of its depth in
    RECOVER. A node that no row visits costs nothing as wide as V.
    """
    nodes = proposal.nodes
    batch, size = nodes.tokens.shape[0], nodes.num_judged
    index = jnp.broadcast_to(jnp.arange(size, dtype=jnp.int32), (batch, size))
    u = sampling.round_uniform(keys, sampling.Purpose.ACCEPT, index)
    parents = jnp.broadcast_to(nodes.parents[:, :size], (batch, size))
    live = trees.live(nodes)[:, :size]

    def step(walk: _Walk, node: Int[Array, ""]):
      here = live[:, node] & (parents[:, node] == walk.at)
      walk = jax.lax.cond(
        here.any(),
        lambda walk: _visit(walk, node, here, u[:, node], proposal, p),
        lambda walk: walk,
        walk,
      )
      return walk, None

    walk = _Walk(
      at=jnp.zeros((batch,), jnp.int32),
      depth=jnp.zeros((batch,), jnp.int32),
      fresh=jnp.ones((batch,), bool),
      left=jnp.zeros((batch, p.scaled.shape[-1])),
      mass=jnp.ones((batch,)),
    )
    if size:
      walk, _ = jax.lax.scan(step, walk, jnp.arange(size, dtype=jnp.int32))
    weights = sampling.dense(p, walk.at)
    weights = jnp.where(walk.fresh[:, None], weights, walk.left)
    u = sampling.round_uniform(
      keys, sampling.Purpose.RECOVER, walk.depth[:, None]
    )
    mask = trees.ancestry(nodes.parents[:, :size], nodes.max_depth)
    return Verdict(
      slots=trees.path_to(mask, walk.at, nodes.max_depth + 1),
      accepted=walk.depth,
      next_token=sampling.inverse_cdf(weights, u[:, 0]),
    )


def _visit(
  walk: _Walk,
  node: Int[Array, ""],
  here: Bool[Array, "B"],
  u: Float[Array, "B"],
  proposal: Proposal,
  p: Law,
) -> _Walk:
  """Judges a node in the rows that are `here`, at its parent."""
  target = jnp.where(
    walk.fresh[:, None],
    sampling.dense(p, walk.at),
    walk.left / walk.mass[:, None],
  )
  drawn = _drawn_from(proposal, node, target.shape[-1])
  token = proposal.nodes.tokens[:, node][:, None]
  kept = u * _at(drawn, token) < _at(target, token)
  kept, refused = here & kept, here & ~kept
  left = jnp.maximum(target - drawn, 0.0)
  mass = left.sum(-1)
  # Rounding may leave nothing, where the laws are all but equal.
  none = mass <= 0.0
  left = jnp.where(none[:, None], target, left)
  mass = jnp.where(none, target.sum(-1), mass)
  return _Walk(
    at=jnp.where(kept, node + 1, walk.at),
    depth=walk.depth + kept,
    fresh=jnp.where(here, kept, walk.fresh),
    left=jnp.where(refused[:, None], left, walk.left),
    mass=jnp.where(refused, mass, walk.mass),
  )


def _drawn_from(
  proposal: Proposal, node: Int[Array, ""], vocab: int
) -> Float[Array, "B V"]:
  """The law that a node was drawn from, those before it refused."""
  nodes, q, q_row = proposal.nodes, proposal.q, proposal.q_row
  batch, size = nodes.tokens.shape[0], nodes.num_judged
  point = jax.nn.one_hot(nodes.tokens[:, node], vocab)
  if q is None or proposal.siblings == "point":
    return point
  if q_row is None:
    raise ValueError("a proposal with q names each node's row of it: q_row")
  law = sampling.dense(q, jnp.broadcast_to(q_row[:, node], (batch,)))
  if proposal.siblings != "without_replacement":
    return law
  parents = nodes.parents[:, :size]
  earlier = parents == jax.lax.dynamic_slice_in_dim(parents, node, 1, 1)
  earlier &= jnp.arange(size)[None] < node
  gone = jnp.where(earlier, nodes.tokens[:, :size], vocab)  # V: none at all
  clear = jax.vmap(lambda law, gone: law.at[gone].set(0.0, mode="drop"))
  law = clear(law, gone)
  mass = law.sum(-1, keepdims=True)
  spent = mass <= 0.0
  return jnp.where(spent, point, law / jnp.where(spent, 1.0, mass))


def _at(
  weights: Float[Array, "B V"], token: Int[Array, "B 1"]
) -> Float[Array, "B"]:
  return jnp.take_along_axis(weights, token, 1)[:, 0]
