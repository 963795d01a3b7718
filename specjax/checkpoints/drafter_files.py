"""Trained drafters as small folders: drafter.json beside drafter.safetensors.

Only what was trained is in the file; what a drafter shares with its target (the
embeddings, the head's rows) is taken from the target when it is loaded.
"""

import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int, PyTree
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from specjax.checkpoints.base import CheckpointError, in_words, nest, read_json
from specjax.checkpoints.new_folder import new_folder

CONFIG, WEIGHTS = "drafter.json", "drafter.safetensors"
STORAGES = ("float32", "bfloat16", "int8")
_FORMAT = 1
_SCALE, _TOKEN_IDS = ".scale", "token_ids"


@dataclasses.dataclass(frozen=True, eq=False)
class DrafterFile:
  """A trained drafter, as it lies on disk.

  Attributes:
    kind: which net it is, "eagle3" say.
    settings: sizes and switches of the net, JSON values.
    target: name of the model that it drafts for.
    target_sizes: (vocabulary, hidden size) of that model.
    params: nested dicts of float32 arrays, the trained ones alone.
    token_ids: target ids of a reduced vocabulary, ascending; None is the whole.
    notes: how it was made and what it reached, JSON values.
  """

  kind: str
  settings: Mapping[str, Any]
  target: str
  target_sizes: tuple[int, int]
  params: PyTree
  token_ids: Int[np.ndarray, "Vq"] | None = None
  notes: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def save_drafter(
  path: str | os.PathLike[str], drafter: DrafterFile, storage: str
) -> None:
  """Saves a drafter; the folder appears whole or not at all.

  Args:
    storage: of matrices and larger, one of `STORAGES`. "int8" keeps a row as
      its entries over a scale, largest magnitude / 127; vectors stay float32
      in any case.

  Raises:
    CheckpointError: `path` exists or cannot be written, an unknown storage.
  """
  path = Path(path).absolute()
  if storage not in STORAGES:
    raise CheckpointError(f"storage must be one of {', '.join(STORAGES)}")
  if path.exists():
    raise CheckpointError(f"{path} exists; save to a new folder")
  arrays: dict[str, np.ndarray] = {}
  for key, leaf in jax.tree_util.tree_leaves_with_path(drafter.params):
    name = jax.tree_util.keystr(key, simple=True, separator="/")
    arrays |= _stored(name, np.asarray(leaf, np.float32), storage)
  if drafter.token_ids is not None:
    arrays[_TOKEN_IDS] = np.asarray(drafter.token_ids, np.int32)
  text = {
    "format": _FORMAT,
    "kind": drafter.kind,
    "settings": dict(drafter.settings),
    "target": drafter.target,
    "target_sizes": list(drafter.target_sizes),
    "storage": storage,
    "notes": dict(drafter.notes),
  }
  with new_folder(path) as folder:
    save_file(arrays, folder / WEIGHTS)
    (folder / CONFIG).write_text(
      json.dumps(text, indent=2) + "\n", encoding="utf-8"
    )


def read_drafter(path: str | os.PathLike[str]) -> DrafterFile:
  """Reads what `save_drafter` saved; weights come back as float32.

  Raises:
    CheckpointError: no such folder, another format, a file cut short.
  """
  path = Path(path)
  if not (path / CONFIG).is_file():
    raise CheckpointError(f"{path} holds no {CONFIG}: it is no trained drafter")
  raw = read_json(path / CONFIG)
  try:
    arrays = load_file(path / WEIGHTS)
  except (OSError, SafetensorError) as error:
    raise CheckpointError(f"cannot read {path / WEIGHTS}: {error}") from error
  token_ids = arrays.pop(_TOKEN_IDS, None)
  try:
    if raw["format"] != _FORMAT:
      raise ValueError(f"format {raw['format']} is not {_FORMAT}")
    vocab, hidden = raw["target_sizes"]
    return DrafterFile(
      kind=raw["kind"],
      settings=raw["settings"],
      target=raw["target"],
      target_sizes=(int(vocab), int(hidden)),
      params=nest(_restored(arrays)),
      token_ids=token_ids,
      notes=raw["notes"],
    )
  except (KeyError, TypeError, ValueError) as error:
    raise CheckpointError(f"{path / CONFIG}: {in_words(error)}") from error


def _stored(name: str, leaf: np.ndarray, storage: str):
  if leaf.ndim < 2 or storage == "float32":
    return {name: leaf}
  if storage == "bfloat16":
    return {name: leaf.astype(jnp.dtype("bfloat16"))}
  largest = np.abs(leaf).max(-1, keepdims=True)
  scale = np.where(largest > 0, largest / 127, 1).astype(np.float32)
  return {name: np.rint(leaf / scale).astype(np.int8), name + _SCALE: scale}


def _restored(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
  restored = {}
  for name, stored in arrays.items():
    if name.endswith(_SCALE) and name.removesuffix(_SCALE) in arrays:
      continue
    leaf = stored.astype(np.float32)
    if stored.dtype == np.int8:
      leaf = leaf * arrays[name + _SCALE]
    restored[name] = leaf
  return restored
