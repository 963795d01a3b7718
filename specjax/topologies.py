"""Static trees of proposals: from paths, from expansion widths, by name."""

import dataclasses
import functools
from collections.abc import Iterable

Path = tuple[int, ...]
_RANKS = "0123456789abcdefghijklmnopqrstuvwxyz"


@dataclasses.dataclass(frozen=True)
class Topology:
  """A tree whose shape no round changes; nodes in level order.

  Attributes:
    paths: of every node, the ranks among siblings on the way to it, 0 first:
      (0, 2) is the third child of the root's first child. Sorted by depth,
      then by path, whatever order they are given in.

  Raises:
    ValueError: no node, one twice, one without its parent or earlier siblings.
  """

  paths: tuple[Path, ...]

  def __post_init__(self):
    given = [tuple(int(rank) for rank in path) for path in self.paths]
    paths = sorted(given, key=lambda path: (len(path), path))
    if not paths:
      raise ValueError("a tree needs a node")
    known = set(paths)
    if len(known) < len(paths):
      twice = next(path for path in paths if paths.count(path) > 1)
      raise ValueError(f"the tree has the path {list(twice)} twice")
    for path in paths:
      if not path or min(path) < 0:
        raise ValueError(f"{list(path)} is no path: ranks are 0 or more")
      above, rank = path[:-1], path[-1]
      if above and above not in known:
        raise ValueError(f"{list(path)} has no parent in the tree")
      if rank and (*above, rank - 1) not in known:
        raise ValueError(f"{list(path)} has no sibling of rank {rank - 1}")
    object.__setattr__(self, "paths", tuple(paths))

  @property
  def num_nodes(self) -> int:
    """N."""
    return len(self.paths)

  @property
  def max_depth(self) -> int:
    """Of its deepest node; the root, slot 0, has depth 0."""
    return len(self.paths[-1])

  @functools.cached_property
  def parents(self) -> tuple[int, ...]:
    """The slot of each node's parent: 0 is the root, node i is slot i + 1."""
    slots = {path: slot for slot, path in enumerate(self.paths, 1)}
    return tuple(slots.get(path[:-1], 0) for path in self.paths)

  @property
  def ranks(self) -> tuple[int, ...]:
    """Of each node among its siblings, in the order in which they are drawn."""
    return tuple(path[-1] for path in self.paths)

  @property
  def depths(self) -> tuple[int, ...]:
    """Of each node, at least 1."""
    return tuple(len(path) for path in self.paths)

  def level(self, depth: int) -> range:
    """The nodes of a depth, which stand side by side."""
    depths = self.depths
    return range(depths.index(depth), depths.index(depth) + depths.count(depth))

  def children(self, slot: int) -> range:
    """The nodes below a slot, which stand side by side."""
    if slot not in self.parents:
      return range(0)
    first = self.parents.index(slot)
    return range(first, first + self.parents.count(slot))

  @property
  def name(self) -> str:
    """What `named` makes it of: a published name, or all paths to its leaves.

    "paths:00/1" has the nodes (0), (0, 0) and (1); ranks above 9 are written as
    letters.
    """
    for name, tree in NAMED.items():
      if tree == self:
        return name
    above = {path[:-1] for path in self.paths}
    leaves = sorted(path for path in self.paths if path not in above)
    if any(rank >= len(_RANKS) for path in leaves for rank in path):
      raise ValueError(
        f"no name has more than {len(_RANKS)} children of a node"
      )
    texts = ("".join(_RANKS[rank] for rank in path) for path in leaves)
    return "paths:" + "/".join(texts)

  def cut(self, max_depth: int) -> "Topology":
    """Without what is deeper."""
    return Topology(tuple(p for p in self.paths if len(p) <= max_depth))


def of_parents(parents: Iterable[int]) -> Topology:
  """From the slot of each node's parent, siblings in the order of their rank.

  Raises:
    ValueError: a parent that does not stand before its child.
  """
  paths: list[Path] = [()]
  seen: dict[int, int] = {}
  for node, parent in enumerate(map(int, parents)):
    if not 0 <= parent <= node:
      raise ValueError(f"node {node} stands before its parent, slot {parent}")
    rank = seen.get(parent, 0)
    seen[parent] = rank + 1
    paths.append((*paths[parent], rank))
  return Topology(tuple(paths[1:]))


def of_leaves(leaves: Iterable[str]) -> Topology:
  """From the paths of some nodes, with all that stands above and before them.

  Args:
    leaves: a digit or letter a rank: "02" is the third child of the first.

  Raises:
    ValueError: no path, or what is no rank.
  """
  paths: set[Path] = set()
  for text in leaves:
    if not text or set(text) - set(_RANKS):
      raise ValueError(f"{text!r} is no path: give a digit or letter a rank")
    path = tuple(_RANKS.index(rank) for rank in text)
    for depth in range(len(path)):
      above = path[:depth]
      paths |= {(*above, rank) for rank in range(path[depth] + 1)}
  return Topology(tuple(paths))


def expansion(widths: Iterable[int]) -> Topology:
  """Every node of depth d - 1 has `widths[d - 1]` children.

  The expansion configuration of SpecInfer (Miao et al. 2024, arXiv 2305.09781,
  section 3): (1, 1, 3, 1) branches once, at the third token.

  Raises:
    ValueError: no width, or one below 1.
  """
  level: list[Path] = [()]
  paths: list[Path] = []
  for width in widths:
    if width < 1:
      raise ValueError(f"an expansion has widths of 1 or more, got {width}")
    level = [(*path, rank) for path in level for rank in range(width)]
    paths += level
  return Topology(tuple(paths))


def independent(count: int, depth: int) -> Topology:
  """`count` chains of `depth` nodes that share the root alone.

  Raises:
    ValueError: a number below 1.
  """
  return expansion((count, *(1 for _ in range(depth - 1))))


def chain(depth: int) -> Topology:
  """One node a depth."""
  return expansion((1,) * depth)


def _spread(*groups: tuple[Path, int]) -> tuple[Path, ...]:
  """(path of a parent, number of its children) of all that have some."""
  return tuple((*path, rank) for path, count in groups for rank in range(count))


# Published choices, as parents with their numbers of children. Medusa's is of
# the accuracy of its heads on a calibration set (Cai et al. 2024, section
# 2.3.3); EAGLE's was drawn by hand (Li et al. 2024, arXiv 2401.15077).
NAMED = {
  "medusa_63": Topology(
    _spread(
      ((), 10),
      ((0,), 10),
      ((1,), 7),
      ((2,), 3),
      ((3,), 2),
      *(((rank,), 1) for rank in range(4, 10)),
      ((0, 0), 10),
      ((0, 1), 3),
      ((0, 2), 2),
      *(((0, rank), 1) for rank in range(3, 8)),
      ((1, 0), 2),
      ((2, 0), 1),
      ((0, 0, 0), 2),
    )
  ),
  "eagle_25": Topology(
    _spread(
      ((), 4),
      ((0,), 3),
      ((1,), 2),
      ((2,), 2),
      ((3,), 1),
      ((0, 0), 3),
      ((0, 1), 2),
      ((0, 2), 2),
      ((1, 0), 1),
      ((0, 0, 0), 3),
      ((0, 0, 0, 0), 2),
    )
  ),
}


def named(name: str) -> Topology:
  """A published choice, "chain:4", "chains:3x5", "expand:4x2x1", "paths:00/1".

  Raises:
    ValueError: with what is known.
  """
  if name in NAMED:
    return NAMED[name]
  kind, _, sizes = name.partition(":")
  try:
    if kind == "chain":
      return chain(int(sizes))
    if kind == "expand":
      return expansion([int(width) for width in sizes.split("x")])
    if kind == "paths":
      return of_leaves(sizes.split("/"))
    if kind == "chains":
      count, depth = sizes.split("x")
      return independent(int(count), int(depth))
  except ValueError as error:
    raise ValueError(f"{name!r} is no tree: {error}") from error
  raise ValueError(
    f"unknown tree {name!r}: choose from {', '.join(NAMED)}, chain:DEPTH,"
    " chains:COUNTxDEPTH, expand:WIDTHxWIDTHx... or paths:RANKS/RANKS/..."
  )
