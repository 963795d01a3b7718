"""What drafters of a static tree have in common."""

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from specjax import sampling
from specjax.topologies import Topology
from specjax.types import Feedback, Law, Nodes, Params, Streams


class Tree:
  """Sizes of a static tree, and no state.

  A base for frozen dataclasses, which declare `tree` and `siblings` and give
  `propose`. Two widths are compiled: a pass without nodes, and one with all.
  """

  if TYPE_CHECKING:  # fields of the dataclass, wherever they stand there

    @property
    def tree(self) -> Topology: ...
    @property
    def siblings(self) -> str: ...

  num_riders = 0
  taps = ()
  reads_logits = False

  @property
  def num_nodes(self) -> int:
    return self.tree.num_nodes

  @property
  def max_depth(self) -> int:
    return self.tree.max_depth

  @property
  def widths(self) -> tuple[int, ...]:
    return (1, 1 + self.tree.num_nodes)

  def init(self, params: Params, batch: int, capacity: int) -> Any:
    return ()

  def observe(self, params: Params, state: Any, seen: Feedback) -> Any:
    return state

  def nodes(self, tokens: Int[Array, "B N"], budget: Int[Array, "B"]) -> Nodes:
    """The nodes that are no deeper than a row's budget: the first levels."""
    depths = np.asarray(self.tree.depths)
    fit = [(depths <= d).sum() for d in range(self.max_depth + 1)]
    count = jnp.asarray(fit, jnp.int32)[budget]
    return Nodes(
      tokens=tokens,
      parents=jnp.asarray(self.tree.parents, jnp.int32)[None],
      count=count,
      rider_count=jnp.zeros_like(count),
      num_judged=self.num_nodes,
      max_depth=self.max_depth,
    )


def draw_children(
  tree: Topology,
  siblings: str,
  slots: list[int],
  logits: Float[Array, "B n V"],
  law: Law,
  keys: Streams,
) -> Int[Array, "B L"]:
  """Draws the children of some slots, which stand side by side in the tree.

  `iid` draws each from the law; `without_replacement` never takes a token that
  an earlier sibling has, and where the law has nothing left goes on with the
  likeliest token that is none of theirs, as a law of lower and lower
  temperature would; `point` takes the likeliest from the start.

  Args:
    slots: n of them, all with children.
    logits, law: at these slots; the law is made of the logits.

  Returns:
    tokens of the children of all slots, in the tree's order.
  """
  batch, _, vocab = logits.shape
  token_id = jax.lax.broadcasted_iota(jnp.int32, (1, 1, vocab), 2)
  weights = sampling.dense(law)
  drawn = {}
  below = [tree.children(slot) for slot in slots]
  for rank in range(max(map(len, below))):
    some = [i for i, nodes in enumerate(below) if len(nodes) > rank]
    nodes = [below[i][rank] for i in some]
    at, node = np.asarray(some), jnp.asarray(nodes, jnp.int32)
    tokens = likeliest = sampling.lowest_argmax(logits[:, at])
    if siblings != "point":
      node = jnp.broadcast_to(node, (batch, len(nodes)))
      u = sampling.round_uniform(keys, sampling.Purpose.DRAFT, node)
      tokens = sampling.inverse_cdf(weights[:, at], u)
    if siblings == "without_replacement":
      spent = weights[:, at].sum(-1) <= 0.0
      tokens = jnp.where(spent, likeliest, tokens)
    if siblings != "iid":
      taken = token_id == tokens[..., None]
      left = jnp.where(taken, -jnp.inf, logits[:, at])
      logits = logits.at[:, at].set(left)
      left = jnp.where(taken, 0.0, weights[:, at])
      weights = weights.at[:, at].set(left)
    drawn |= {node: tokens[:, i] for i, node in enumerate(nodes)}
  return jnp.stack([drawn[node] for node in sorted(drawn)], 1)
