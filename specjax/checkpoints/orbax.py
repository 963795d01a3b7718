"""Parameters saved and restored through orbax's v1 API.

A saved folder holds `specjax.json` (sizes and switches), `params` (orbax) and,
where a tokenizer was given, its files; it loads by path like any model.
"""

import dataclasses
import json
import os
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np
from jaxtyping import PyTree
from orbax.checkpoint import v1 as ocp

from specjax.checkpoints.base import (
  CheckpointError,
  as_dtype,
  check_tensors,
  nest,
  read_json,
  shapes,
)
from specjax.checkpoints.new_folder import new_folder
from specjax.models.config import DecoderConfig

CONFIG = "specjax.json"
_FORMAT = 1


@runtime_checkable
class SavesFiles(Protocol):
  """A tokenizer, as far as saving it goes."""

  def save(self, folder: Path) -> None: ...


def save_tree(path: str | os.PathLike[str], tree: PyTree) -> None:
  """Saves a pytree of arrays; the folder appears whole or not at all.

  Raises:
    CheckpointError: `path` exists or cannot be written.
  """
  path = Path(path).absolute()
  if path.exists():
    raise CheckpointError(f"{path} exists; save to a new folder")
  try:
    ocp.save(str(path), tree)
  except (OSError, ValueError) as error:
    raise CheckpointError(f"cannot save {path}: {error}") from error


def restore_tree(path: str | os.PathLike[str], like: PyTree) -> PyTree:
  """Restores what `save_tree` saved.

  Args:
    like: the structure wanted, of arrays or jax.ShapeDtypeStructs. A numpy
      array gives a numpy array; a struct with a sharding gives a jax.Array laid
      out so, whatever the devices it was saved from.

  Raises:
    CheckpointError: no such folder, or another structure, shape or dtype.
  """
  path = Path(path).absolute()
  if not path.is_dir():
    raise CheckpointError(f"there is no checkpoint at {path}")
  try:
    found = _described(ocp.metadata(str(path)).metadata)
    wanted = _described(like)
    check_tensors(
      {name: shape for name, (shape, _) in found.items()},
      {name: shape for name, (shape, _) in wanted.items()},
      path,
    )
    for name, (_, dtype) in wanted.items():
      if found[name][1] != dtype:
        raise CheckpointError(
          f"{path}: {name} is {found[name][1]}, {dtype} was expected"
        )
    return ocp.load(str(path), like)
  except CheckpointError:
    raise
  except Exception as error:
    raise CheckpointError(f"cannot restore {path}: {error}") from error


def _described(tree: PyTree) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
  return {
    jax.tree_util.keystr(key, simple=True, separator="/"): (
      tuple(leaf.shape),
      np.dtype(leaf.dtype),
    )
    for key, leaf in jax.tree_util.tree_leaves_with_path(tree)
  }


def save_checkpoint(
  path: str | os.PathLike[str],
  config: DecoderConfig,
  params: PyTree,
  tokenizer: SavesFiles | None = None,
) -> None:
  """Saves a decoder so that `load(path)` finds it; whole or not at all.

  Raises:
    CheckpointError: `path` exists, cannot be written, or the parameters are not
      those of `config`.
  """
  path = Path(path).absolute()
  if path.exists():
    raise CheckpointError(f"{path} exists; save to a new folder")
  found = {name: shape for name, (shape, _) in _described(params).items()}
  check_tensors(found, shapes(config), path)
  dtypes = {dtype for _, dtype in _described(params).values()}
  if dtypes != {as_dtype(config.dtype)}:
    raise CheckpointError(
      f"the parameters are {', '.join(sorted(map(str, dtypes)))}, the config"
      f" says {config.dtype}"
    )
  with new_folder(path) as folder:
    save_tree(folder / "params", params)
    text = {"format": _FORMAT, "config": dataclasses.asdict(config)}
    (folder / CONFIG).write_text(json.dumps(text, indent=2), encoding="utf-8")
    if tokenizer is not None:
      tokenizer.save(folder)


def read_saved(path: Path, dtype: Any = None) -> tuple[DecoderConfig, PyTree]:
  """Reads a folder that `save_checkpoint` wrote, as numpy arrays.

  Args:
    dtype: "float32" or "bfloat16"; None keeps what was saved.
  """
  raw = read_json(path / CONFIG)
  try:
    if raw["format"] != _FORMAT:
      raise ValueError(f"format {raw['format']} is not {_FORMAT}")
    config = DecoderConfig.from_json(raw["config"])
    stored = as_dtype(config.dtype)
  except (KeyError, TypeError, ValueError) as error:
    raise CheckpointError(f"{path / CONFIG}: {error}") from error
  target = stored if dtype is None else as_dtype(dtype)
  # Views of one element: shapes without the memory.
  like = {
    name: np.broadcast_to(np.zeros((), stored), shape)
    for name, shape in shapes(config).items()
  }
  params = restore_tree(path / "params", nest(like))
  return (
    dataclasses.replace(config, dtype=str(target)),
    jax.tree.map(lambda leaf: leaf.astype(target, copy=False), params),
  )
