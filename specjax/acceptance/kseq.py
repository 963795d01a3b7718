"""K-SEQ for independent siblings: SpecTr, Sun et al. 2023, arXiv 2310.15141."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from specjax import sampling, trees
from specjax.types import Law, Proposal, Streams, Verdict


@dataclasses.dataclass(frozen=True)
class KSeq:
  """Keeps the first child x with u r q(x) < p(x), one r for all K children.

  r in [1, K] is the least that leaves the extra token a law, by bisection. It
  accepts at least as much as recursive rejection of the same draws, for some
  thirty operations as wide as V at each depth.
  """

  name = "kseq"
  supports = frozenset({"chain", "iid"})
  lossless_for = supports
  needs = "its one division factor is that of independent draws of one law"

  def __call__(self, proposal: Proposal, p: Law, keys: Streams) -> Verdict:
    """Walks down by depth; the children of a node share a row of q.

    Node i takes number i of ACCEPT, and the extra token that of its depth in
    RECOVER.
    """
    nodes = proposal.nodes
    batch, size = nodes.tokens.shape[0], nodes.num_judged
    index = jnp.broadcast_to(jnp.arange(size, dtype=jnp.int32), (batch, size))
    u = sampling.round_uniform(keys, sampling.Purpose.ACCEPT, index)
    parents = jnp.broadcast_to(nodes.parents[:, :size], (batch, size))
    live = trees.live(nodes)[:, :size]

    def step(walk, depth):
      at, accepted, left = walk
      children = live & (parents == at[:, None])
      here = children.any(-1) & (accepted == depth)  # else refused before

      def visit():
        first = jnp.argmax(children, -1).astype(jnp.int32)
        target = sampling.dense(p, at)
        drawn = _drawn_from(proposal, first, target.shape[-1])
        count = children.sum(-1).astype(jnp.float32)
        factor, left = _divide(target, drawn, jnp.maximum(count, 1.0))
        tokens = nodes.tokens[:, :size]
        q_token = jnp.take_along_axis(drawn, tokens, 1)
        p_token = jnp.take_along_axis(target, tokens, 1)
        return children & (u * (factor[:, None] * q_token) < p_token), left

      kept, rest = jax.lax.cond(
        here.any(), visit, lambda: (jnp.zeros_like(children), left)
      )
      kept &= here[:, None]
      moves = kept.any(-1)
      refused = (here & ~moves)[:, None]
      at = jnp.where(moves, jnp.argmax(kept, -1).astype(jnp.int32) + 1, at)
      return (at, accepted + moves, jnp.where(refused, rest, left)), None

    zero = jnp.zeros((batch,), jnp.int32)
    none = jnp.zeros((batch, p.scaled.shape[-1]))
    walk = (zero, zero, none)
    if size:
      levels = jnp.arange(nodes.max_depth, dtype=jnp.int32)
      walk, _ = jax.lax.scan(step, walk, levels)
    at, accepted, left = walk
    # Nothing is left where nothing was refused, or where rounding took it.
    spent = left.sum(-1, keepdims=True) <= 0.0
    weights = jnp.where(spent, sampling.dense(p, at), left)
    u = sampling.round_uniform(
      keys, sampling.Purpose.RECOVER, accepted[:, None]
    )
    mask = trees.ancestry(nodes.parents[:, :size], nodes.max_depth)
    return Verdict(
      slots=trees.path_to(mask, at, nodes.max_depth + 1),
      accepted=accepted,
      next_token=sampling.inverse_cdf(weights, u[:, 0]),
    )


def _drawn_from(
  proposal: Proposal, node: Int[Array, "B"], vocab: int
) -> Float[Array, "B V"]:
  """The law of a node, one a row."""
  if proposal.q is None:
    token = jnp.take_along_axis(proposal.nodes.tokens, node[:, None], 1)[:, 0]
    return jax.nn.one_hot(token, vocab)
  if proposal.q_row is None:
    raise ValueError("a proposal with q names each node's row of it: q_row")
  size = proposal.nodes.num_judged
  rows = jnp.broadcast_to(proposal.q_row[:, :size], (node.shape[0], size))
  row = jnp.take_along_axis(rows, node[:, None], 1)[:, 0]
  return sampling.dense(proposal.q, row)


def _divide(
  p: Float[Array, "B V"], q: Float[Array, "B V"], count: Float[Array, "B"]
) -> tuple[Float[Array, "B"], Float[Array, "B V"]]:
  """(r, the law after K = `count` refusals, not normalised).

  With b = sum min(q, p / r), a draw is kept with b and some draw with t = 1 -
  (1 - b)^K. What is left of p is nowhere negative where t <= r b, which holds
  at the bisection's upper end at every step.
  """

  def keep(factor):
    kept = jnp.minimum(q, p / factor[:, None])
    each = kept.sum(-1)
    return kept, each, 1.0 - (1.0 - each) ** count

  def halve(_, bounds):
    low, high = bounds
    middle = (low + high) / 2.0
    _, each, total = keep(middle)
    lawful = total <= middle * each
    return jnp.where(lawful, low, middle), jnp.where(lawful, middle, high)

  steps = jnp.finfo(jnp.float32).nmant + 4
  start = (jnp.ones_like(count), count)
  _, factor = jax.lax.fori_loop(0, steps, halve, start)
  kept, each, total = keep(factor)
  times = total / jnp.where(each > 0.0, each, 1.0)
  return factor, jnp.maximum(p - kept * times[:, None], 0.0)
