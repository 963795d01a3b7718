"""Keeps a node where it equals the target's own sample; any topology."""

import dataclasses

import jax.numpy as jnp

from specjax import sampling, trees
from specjax.types import Law, Proposal, Streams, Verdict


@dataclasses.dataclass(frozen=True)
class ExactMatch:
  """Every emitted token is the target's sample, drawn by (row, position).

  So the output is plain decoding's, token for token, at any temperature and
  whatever was drafted. It accepts with probability sum(p * q), which for point
  masses is as much as any exact rule can.
  """

  name = "exact_match"
  supports = frozenset({"chain", "point", "iid", "without_replacement"})
  lossless_for = supports

  def __call__(self, proposal: Proposal, p: Law, keys: Streams) -> Verdict:
    """Follows the samples down the tree.

    The samples at two slots of one depth use the same number, but only slots
    on the path that the samples themselves take are ever read, so each emitted
    token uses a number of its own. Equal siblings are all matched; the deepest
    kept node wins, the first of them where several are.
    """
    nodes = proposal.nodes
    size = nodes.num_judged
    mask = trees.ancestry(nodes.parents[:, :size], nodes.max_depth)
    depth = trees.depths(mask)  # [#B W]
    position = keys.round_start[:, None] + depth
    u = sampling.target_uniform(keys.row, position)
    samples = sampling.draw(_first_rows(p, size + 1), u)  # [B W]

    batch = samples.shape[0]
    parents = jnp.broadcast_to(nodes.parents[:, :size], (batch, size))
    matched = nodes.tokens[:, :size] == jnp.take_along_axis(samples, parents, 1)
    matched &= trees.live(nodes)[:, :size]
    matched = jnp.pad(matched, ((0, 0), (1, 0)), constant_values=True)
    kept = (matched[:, None] | ~mask).all(-1)  # with all its ancestors
    deepest = jnp.argmax(jnp.where(kept, depth, -1), -1).astype(jnp.int32)
    depth = jnp.broadcast_to(depth, samples.shape)
    return Verdict(
      slots=trees.path_to(mask, deepest, nodes.max_depth + 1),
      accepted=jnp.take_along_axis(depth, deepest[:, None], 1)[:, 0],
      next_token=jnp.take_along_axis(samples, deepest[:, None], 1)[:, 0],
    )


def _first_rows(law: Law, rows: int) -> Law:
  return Law(law.scaled[:, :rows], law.cutoff[:, :rows], law.log_norm[:, :rows])
