"""What drafters made of other drafters have in common."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Int, PyTree

from specjax import trees
from specjax.types import Drafter, Feedback, Nodes, Params, Proposal


@struct.dataclass
class Share:
  """A part's own proposal, and the slots of the whole one that it went to.

  own     0 |-- a           whole   0 |-- x
            `-- b                     `-- a
                                          `-- y
  slots   0 2 -1            b is not in the whole
  """

  nodes: Nodes
  slots: Int[Array, "B w"]  # of every own slot; -1 of what is not there


@struct.dataclass
class CombinedState:
  """States of the parts, and what became of their last proposals."""

  parts: tuple[PyTree, ...]
  shares: tuple[Share, ...]


class Combination:
  """Sizes and feedback of parts that share a pass; no proposal.

  A base for frozen dataclasses, which declare `drafters` and give `propose`.
  `Params.draft` is a tuple of the parts' own, None of a part without weights;
  None alone says that of all of them.

  Every part observes every round: the text that was emitted, whoever proposed
  it, and which of its own nodes were kept, in its own numbering of slots. A
  part that feeds its nodes to a draft of its own commits those, and reads the
  rest from the text before it drafts again; one that learns from the target's
  features learns from those of all kept slots.

  Riders of one part share the pass, too: they keep their places behind the
  judged nodes.
  """

  if TYPE_CHECKING:  # a field of the dataclass, wherever it stands there

    @property
    def drafters(self) -> tuple[Drafter, ...]: ...

  def __post_init__(self):
    name = type(self).__name__
    if not self.drafters:
      raise ValueError(f"{name} needs at least one drafter")
    riding = [type(part).__name__ for part in self.drafters if part.num_riders]
    if len(riding) > 1:
      raise ValueError(
        f"{name} takes one drafter with riders, got {', '.join(riding)}: riders"
        " are packed in a row, and two drafters' would have gaps"
      )

  @property
  def num_riders(self) -> int:
    return max(part.num_riders for part in self.drafters)

  @property
  def max_depth(self) -> int:
    return max(part.max_depth for part in self.drafters)

  @property
  def taps(self) -> tuple[str, ...]:
    names = (name for part in self.drafters for name in part.taps)
    return tuple(dict.fromkeys(names))

  @property
  def reads_logits(self) -> bool:
    return any(part.reads_logits for part in self.drafters)

  def init(self, params: Params, batch: int, capacity: int) -> CombinedState:
    if params.draft is not None:
      given, wanted = params.draft, len(self.drafters)
      if not isinstance(given, Sequence) or len(given) != wanted:
        raise ValueError(
          f"{type(self).__name__} of {wanted} drafters needs draft= as a tuple"
          f" of {wanted}, one for each (None for one without weights)"
        )
    return CombinedState(
      parts=tuple(
        part.init(self._params(params, index), batch, capacity)
        for index, part in enumerate(self.drafters)
      ),
      shares=tuple(_no_share(part, batch) for part in self.drafters),
    )

  def observe(
    self, params: Params, state: CombinedState, seen: Feedback
  ) -> CombinedState:
    each = zip(self.drafters, state.parts, state.shares, strict=True)
    parts = tuple(
      part.observe(self._params(params, index), own, _of(part, share, seen))
      for index, (part, own, share) in enumerate(each)
    )
    return dataclasses.replace(state, parts=parts)

  def _params(self, params: Params, index: int) -> Params:
    """As the part of an index knows them."""
    draft: Any = params.draft
    draft = None if draft is None else draft[index]
    return dataclasses.replace(params, draft=draft)


def share(proposal: Proposal, slots: Int[Array, "B w"]) -> Share:
  """Of a part's proposal; every leaf leads with B."""
  nodes = proposal.nodes
  parents = jnp.broadcast_to(nodes.parents, nodes.tokens.shape)
  return Share(dataclasses.replace(nodes, parents=parents), slots)


def _no_share(part: Drafter, batch: int) -> Share:
  """Before the first round."""
  size = part.num_nodes + part.num_riders
  none = jnp.zeros((batch, size), jnp.int32)
  count = jnp.zeros((batch,), jnp.int32)
  nodes = Nodes(none, none, count, count, part.num_nodes, part.max_depth)
  return Share(nodes, jnp.full((batch, 1 + size), -1, jnp.int32))


def _of(part: Drafter, share: Share, seen: Feedback) -> Feedback:
  """What a part learns from: the same text, and its own nodes.

  Of its nodes the deepest kept one counts, with the path to it. Where several
  became one node all are kept, and the path is that of one.
  """
  taps = {name: seen.taps[name] for name in part.taps}
  if seen.slots is None or seen.accepted is None:
    return dataclasses.replace(seen, taps=taps)
  kept = (share.slots[:, :, None] == seen.slots[:, None]).any(-1)
  mask = trees.ancestry(share.nodes.parents, share.nodes.tokens.shape[1])
  depth = jnp.where(kept, trees.depths(mask), 0)
  deepest = jnp.argmax(depth, 1).astype(jnp.int32)
  accepted = jnp.take_along_axis(depth, deepest[:, None], 1)[:, 0]
  logits = None
  if part.reads_logits and seen.logits is not None:
    at = jnp.maximum(share.slots, 0)[..., None]
    there = (share.slots >= 0)[..., None]
    logits = jnp.take_along_axis(seen.logits, at, 1)
    logits = jnp.where(there, logits, 0)
  return dataclasses.replace(
    seen,
    taps=taps,
    slots=trees.path_to(mask, deepest, seen.slots.shape[1]),
    accepted=jnp.minimum(accepted, seen.accepted),
    nodes=share.nodes,
    logits=logits,
  )
