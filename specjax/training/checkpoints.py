"""What a training needs to go on: the last checkpoints, and the best one.

A checkpoint is one folder, `step_00000100`, that orbax writes whole or not at
all. Leaves are stored flat by their path and put back into the form of what is
asked for, so an optimizer's state keeps its types.
"""

import dataclasses
import re
import shutil
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from specjax.checkpoints.base import CheckpointError
from specjax.checkpoints.orbax import restore_tree, save_tree

_NAME = re.compile(r"step_(\d{8})")


@dataclasses.dataclass(frozen=True)
class Checkpoints:
  """The checkpoints in a folder.

  Attributes:
    keep: so many of the last ones stay, and the best one beside them.
  """

  folder: Path
  keep: int = 2

  def __post_init__(self):
    if self.keep < 1:
      raise ValueError(f"keep must be at least 1, got {self.keep}")

  def steps(self) -> list[int]:
    """Steps that there are whole checkpoints of, ascending."""
    if not self.folder.is_dir():
      return []
    names = [_NAME.fullmatch(path.name) for path in self.folder.iterdir()]
    return sorted(int(name[1]) for name in names if name)

  def path(self, step: int) -> Path:
    return self.folder / f"step_{step:08d}"

  def save(self, step: int, tree: PyTree, best: int | None) -> None:
    """Saves, and only then removes what is neither recent nor `best`.

    Raises:
      CheckpointError: it cannot be written.
    """
    try:
      self.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
      raise CheckpointError(f"cannot make {self.folder}: {error}") from error
    save_tree(self.path(step), _flat(tree))
    kept = {*self.steps()[-self.keep :], best}
    for old in self.folder.iterdir():
      name = _NAME.fullmatch(old.name)
      if name is None or int(name[1]) not in kept:  # or one never finished
        shutil.rmtree(old, ignore_errors=True)

  def restore(self, step: int, like: PyTree) -> PyTree:
    """What was saved, in the very types and shardings of `like`.

    Args:
      like: arrays, or jax.ShapeDtypeStructs where a type takes them.

    Raises:
      CheckpointError: no such checkpoint, or one of other sizes.
    """
    wanted = _flat(like)
    found = restore_tree(self.path(step), wanted)
    leaves = [
      np.asarray(found[name]) if isinstance(leaf, np.ndarray) else found[name]
      for name, leaf in wanted.items()
    ]
    return jax.tree.unflatten(jax.tree.structure(like), leaves)


def _flat(tree: PyTree) -> dict[str, Any]:
  return {
    jax.tree_util.keystr(path, simple=True, separator="."): leaf
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
  }
