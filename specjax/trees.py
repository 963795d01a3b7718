"""Topologies of proposals: ancestry, depths, paths, and the slots of a pass."""

import dataclasses

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, Int

from specjax import filters
from specjax.types import Nodes, Slots


def chain(tokens: Int[Array, "B N"], count: Int[Array, "B"]) -> Nodes:
  """One node a depth, the first `count` of them live in a row."""
  size = tokens.shape[1]
  return Nodes(
    tokens=tokens,
    parents=jnp.arange(size, dtype=jnp.int32)[None],
    count=count,
    rider_count=jnp.zeros_like(count),
    num_judged=size,
    max_depth=size,
  )


def chains(tokens: Int[Array, "B G D"]) -> Nodes:
  """Several chains side by side, all nodes live."""
  batch, number, deep = tokens.shape
  first = jnp.arange(number, dtype=jnp.int32)[:, None] * deep
  step = jnp.arange(deep, dtype=jnp.int32)[None]
  size = number * deep
  return Nodes(
    tokens=tokens.reshape(batch, size),
    parents=jnp.where(step > 0, first + step, 0).reshape(1, size),
    count=jnp.full((batch,), size, jnp.int32),
    rider_count=jnp.zeros((batch,), jnp.int32),
    num_judged=size,
    max_depth=deep,
  )


def ancestry(
  parents: Int[Array, "#B N"], max_depth: int
) -> Bool[Array, "#B W W"]:
  """mask[b, i, j]: slot j is slot i or an ancestor of it.

  slot 0          1 . . . .        parents of the nodes: 0 0 1 1
    |-- 1         1 1 . . .
    |   |-- 3     1 . 1 . .
    |   `-- 4     1 1 . 1 .
    `-- 2         1 1 . . 1
  """
  width = parents.shape[1] + 1
  itself = jnp.eye(width, dtype=bool)[None]
  column = jnp.arange(width)[None, None]
  parent = jnp.pad(parents, ((0, 0), (1, 0)))[..., None] == column
  mask = itself | parent
  reach = 1  # mask now holds ancestors up to `reach` steps away
  while reach < max_depth:
    step = mask.astype(jnp.int8)
    # A path of 128 slots is more than an int8 counts.
    mask = jnp.matmul(step, step, preferred_element_type=jnp.int32) > 0
    reach *= 2
  return mask


def depths(mask: Bool[Array, "#B W W"]) -> Int[Array, "#B W"]:
  """Depth of every slot from its ancestry; slot 0 has depth 0."""
  return mask.sum(-1, dtype=jnp.int32) - 1


def live(nodes: Nodes) -> Bool[Array, "B N"]:
  """Which nodes, judged or riding, are there at all."""
  index = jnp.arange(nodes.tokens.shape[1])[None]
  judged = index < jnp.minimum(nodes.count, nodes.num_judged)[:, None]
  rider = index - nodes.num_judged
  riding = (rider >= 0) & (rider < nodes.rider_count[:, None])
  return judged | riding


def width_needed(nodes: Nodes) -> Int[Array, "B"]:
  """Slots a row needs: its judged nodes are packed first, riders follow all."""
  riding = nodes.num_judged + nodes.rider_count
  return 1 + jnp.where(nodes.rider_count > 0, riding, nodes.count)


def narrow(nodes: Nodes, width: int) -> Nodes:
  """The nodes of a pass of `width` slots."""
  judged = min(nodes.num_judged, width - 1)
  return dataclasses.replace(
    nodes,
    tokens=nodes.tokens[:, : width - 1],
    parents=nodes.parents[:, : width - 1],
    count=jnp.minimum(nodes.count, judged),
    num_judged=judged,
    max_depth=min(nodes.max_depth, width - 1),
  )


def make_slots(
  last: Int[Array, "B"], length: Int[Array, "B"], nodes: Nodes
) -> Slots:
  """Slots of the target pass; a node stands at length - 1 + its depth.

  Dead nodes run too: they attend to themselves and nothing keeps them.
  """
  mask = ancestry(nodes.parents, nodes.tokens.shape[1])
  tokens = jnp.concatenate([last[:, None], nodes.tokens], 1)
  return Slots(
    tokens=tokens,
    positions=(length - 1)[:, None] + depths(mask),
    mask=mask,
  )


def path_to(
  mask: Bool[Array, "#B W W"], slot: Int[Array, "B"], size: int
) -> Int[Array, "B S"]:
  """Slots from slot 0 down to `slot`; entries past it repeat it."""
  batch, width = slot.shape[0], mask.shape[-1]
  mask = jnp.broadcast_to(mask, (batch, width, width))
  depth = depths(mask)
  on_path = jnp.take_along_axis(mask, slot[:, None, None], 1)[:, 0]
  wanted = jnp.arange(size)[None, :, None]
  at = on_path[:, None] & (depth[:, None] == wanted)  # [B S W]
  found = jnp.argmax(at, -1).astype(jnp.int32)
  return jnp.where(at.any(-1), found, slot[:, None])


def depth_along(nodes: Nodes, text: Int[Array, "B D"]) -> Int[Array, "B"]:
  """How far judged nodes go on with a text, of which text[:, 0] comes first."""
  size = nodes.num_judged
  mask = ancestry(nodes.parents[:, :size], size)
  depth = depths(mask)
  at = jnp.broadcast_to(depth[:, 1:] - 1, nodes.tokens[:, :size].shape)
  wanted = jnp.take_along_axis(text, jnp.minimum(at, text.shape[1] - 1), 1)
  same = (nodes.tokens[:, :size] == wanted) & live(nodes)[:, :size]
  same = (_prepend(same, True)[:, None] | ~mask).all(-1)  # and its ancestors
  return jnp.where(same, depth, 0).max(-1)


@struct.dataclass
class Merged:
  """A forest in which no two siblings have one token.

  old  0              new  0              slots   0 1 2 1 3 -1
       |-- a               |-- a          first   0 1 3
       |-- b               |   `-- c      copies  2 1 1
       `-- a               `-- b
           |-- c
           `-- dead
  """

  nodes: Nodes
  slots: Int[Array, "B W"]  # new slot of each old one, -1 of what is gone
  first: Int[Array, "B N"]  # old node that each new one is the earliest of
  copies: Int[Array, "B N"]  # old nodes that became each new one, 0 of the dead


def merge_siblings(
  nodes: Nodes,
  there: Bool[Array, "B N"] | None = None,
  budget: Int[Array, "B"] | None = None,
) -> Merged:
  """Makes equal siblings one node, with the children of all of them.

  Only for point masses: nodes that were drawn from a law must stay as drawn.
  Judged nodes end up packed first in their old order, each where the earliest
  of its copies stood among its siblings. Riders keep their places and follow
  the nodes that they hang from, which must not go.

  Args:
    there: nodes to take, packed or not; the live ones by default. What hangs
      from one that is not taken goes with it.
    budget: largest depth of a row's nodes; deeper ones go.
  """
  batch, size = nodes.tokens.shape
  parents = jnp.broadcast_to(nodes.parents, (batch, size))
  mask = ancestry(parents, size)
  there = live(nodes) if there is None else there
  judged = jnp.arange(size)[None] < nodes.num_judged
  if budget is not None:
    there &= ~judged | (depths(mask)[:, 1:] <= budget[:, None])
  there = _prepend(there, True)
  there = (there[:, None] | ~mask).all(-1)[:, 1:]  # with all its ancestors

  alike = nodes.tokens[:, :, None] == nodes.tokens[:, None]
  takes_part = there & judged
  alike &= takes_part[:, :, None] & takes_part[:, None]
  alike = jnp.pad(alike, ((0, 0), (1, 0), (1, 0)))  # by slot
  itself = jnp.eye(size + 1, dtype=bool)[None]

  def settle(_, earliest):
    """Slot of each one's earliest copy, right for one more level."""
    above = jnp.take_along_axis(earliest, _prepend(parents, 0), 1)
    same = alike & (above[:, :, None] == above[:, None])
    return jnp.argmax(same | itself, -1).astype(jnp.int32)

  own = jnp.arange(size + 1, dtype=jnp.int32)[None]
  earliest = jnp.broadcast_to(own, (batch, size + 1))
  earliest = jax.lax.fori_loop(0, nodes.max_depth, settle, earliest)
  kept = takes_part & (earliest == own)[:, 1:]
  place = jnp.where(judged, jnp.cumsum(kept, 1, dtype=jnp.int32), own[:, 1:])
  slots = jnp.take_along_axis(_prepend(place, 0), earliest, 1)
  slots = jnp.where(_prepend(there, True), slots, -1)

  # Kept judged nodes, then the other judged ones, then the riders.
  first = jnp.argsort(jnp.where(judged, ~kept, 2), 1, stable=True)
  first = first.astype(jnp.int32)
  count = kept.sum(1, dtype=jnp.int32)
  dead = judged & (jnp.arange(size)[None] >= count[:, None])
  copies = (slots[:, None, 1:] == own[:, 1:, None]).sum(-1, dtype=jnp.int32)
  parents = jnp.take_along_axis(parents, first, 1)
  parents = jnp.maximum(jnp.take_along_axis(slots, parents, 1), 0)
  tokens = jnp.take_along_axis(nodes.tokens, first, 1)
  merged = dataclasses.replace(
    nodes,
    tokens=jnp.where(dead, 0, tokens),
    parents=jnp.where(dead, 0, parents),
    count=count,
  )
  return Merged(merged, slots, first, copies)


def best_nodes(nodes: Nodes, score: Float[Array, "B M"], size: int) -> Nodes:
  """The judged nodes with the best scores, in their order.

  Args:
    nodes: without riders.
    score: of each; -inf of what is not to be taken. A parent that is to be
      taken has at least its children's; of equal ones the earlier is better.
    size: N, the most nodes of a row.
  """
  number = score.shape[1]
  extra = ((0, 0), (0, max(0, size - number)))
  score = jnp.pad(score, extra, constant_values=-jnp.inf)
  best, at = filters.largest(score, size)
  live = best > -jnp.inf
  at = jnp.sort(jnp.where(live, at, number), 1)  # the dead come last
  dead, taken = at == number, jnp.minimum(at, number - 1)
  parents = jnp.broadcast_to(nodes.parents, nodes.tokens.shape)
  parents = jnp.take_along_axis(parents, taken, 1)
  # Slot of a node: 1 + the number of kept ones before it.
  slots = jax.vmap(jnp.searchsorted)(at, parents - 1).astype(jnp.int32) + 1
  tokens = jnp.take_along_axis(nodes.tokens, taken, 1)
  return dataclasses.replace(
    nodes,
    tokens=jnp.where(dead, 0, tokens),
    parents=jnp.where(dead | (parents == 0), 0, slots),
    count=live.sum(1, dtype=jnp.int32),
    num_judged=size,
  )


def _prepend(x: Array, value) -> Array:
  """With a column for slot 0."""
  return jnp.pad(x, ((0, 0), (1, 0)), constant_values=value)
