"""Checkpoints by name: GGUF files, Hugging Face folders, saved parameters."""

import os
from typing import Any

from specjax.checkpoints.base import Checkpoint, CheckpointError
from specjax.checkpoints.gguf import read_gguf
from specjax.checkpoints.huggingface import read_huggingface
from specjax.checkpoints.names import DEFAULT, EMBEDDED, Source, resolve
from specjax.checkpoints.orbax import (
  CONFIG,
  read_saved,
  restore_tree,
  save_checkpoint,
  save_tree,
)

__all__ = [
  "DEFAULT",
  "EMBEDDED",
  "Checkpoint",
  "CheckpointError",
  "Source",
  "load",
  "read_gguf",
  "read_huggingface",
  "resolve",
  "restore_tree",
  "save_checkpoint",
  "save_tree",
]


def load(
  source: str | os.PathLike[str] | Source = DEFAULT, dtype: Any = "float32"
) -> Checkpoint:
  """Loads a model by name, fetching its files first where need be.

  Args:
    source: what `resolve` takes or gives.
    dtype: of the parameters, "float32" or "bfloat16".

  Raises:
    CheckpointError: unknown, unreachable, unsound or unsupported.
  """
  if not isinstance(source, Source):
    source = resolve(source)
  path = source.fetch()
  if path.suffix == ".gguf" and path.is_file():
    config, params, metadata = read_gguf(path, dtype)
    return Checkpoint(config, params, metadata, source.name, path)
  folder = path if path.is_dir() else path.parent
  if (folder / CONFIG).is_file():
    config, params = read_saved(folder, dtype)
  else:
    config, params = read_huggingface(path, dtype)
  return Checkpoint(config, params, folder, source.name, path)
