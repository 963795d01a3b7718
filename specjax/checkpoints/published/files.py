"""Folders of published drafters: config.json beside tensors, either way."""

import importlib.util
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save_file

from specjax.checkpoints.base import CheckpointError, read_json
from specjax.checkpoints.huggingface import INDEX, SINGLE
from specjax.checkpoints.new_folder import new_folder

CONFIG = "config.json"
BINARY = "pytorch_model.bin"
MEDUSA, MEDUSA_BINARY = "medusa_lm_head.safetensors", "medusa_lm_head.pt"
DTYPES = ("float32", "bfloat16", "float16")

_WHOLE_NUMBERS = ("d2t", "t2d", "token_map")

Tensors = dict[str, np.ndarray]


def read_tensors(folder: Path, single: str, binary: str) -> Tensors:
  """Every tensor of a folder, in the type that it has there.

  Args:
    folder: where they are.
    single: name of the safetensors file; shards by an index are read too.
    binary: name of torch's own file, read where there is no other and torch is
      installed.

  Raises:
    CheckpointError: none of them, or one that is cut short.
  """
  if (folder / single).is_file():
    return _load(folder / single)
  if single == SINGLE and (folder / INDEX).is_file():
    tensors: Tensors = {}
    for name in sorted(set(_index(folder).values())):
      tensors |= _load(folder / name)
    return tensors
  if (folder / binary).is_file():
    return _load_binary(folder / binary)
  raise CheckpointError(f"{folder} holds neither {single} nor {binary}")


def tensor_names(folder: Path) -> set[str]:
  """Names in a folder's safetensors; empty where it has none that are sound."""
  try:
    if (folder / INDEX).is_file():
      return set(_index(folder))
    with safe_open(folder / SINGLE, framework="numpy") as file:
      return set(file.keys())
  except (CheckpointError, SafetensorError, OSError):
    return set()


def _index(folder: Path) -> dict[str, str]:
  names = read_json(folder / INDEX).get("weight_map")
  if not isinstance(names, dict) or not all(
    isinstance(name, str) and name == os.path.basename(name)
    for name in names.values()
  ):
    raise CheckpointError(f"{folder / INDEX} has no sound weight_map")
  return names


def _load(path: Path) -> Tensors:
  try:
    return load_file(path)
  except (OSError, SafetensorError, KeyError) as error:
    raise CheckpointError(f"cannot read {path}: {error}") from error


def _load_binary(path: Path) -> Tensors:
  if importlib.util.find_spec("torch") is None:
    raise CheckpointError(
      f"{path} is torch's own format: install torch, or save its tensors as"
      " safetensors"
    )
  import torch

  try:
    tensors = torch.load(path, map_location="cpu", weights_only=True)
    return {name: _from_torch(tensor) for name, tensor in tensors.items()}
  except Exception as error:  # of pickle, zip and torch alike
    raise CheckpointError(f"cannot read {path}: {error}") from error


def _from_torch(tensor: Any) -> np.ndarray:
  if str(tensor.dtype) != "torch.bfloat16":
    return tensor.numpy()
  return tensor.float().numpy().astype(jnp.dtype("bfloat16"))  # exact


def split_type(tensors: Mapping[str, np.ndarray], path: Path) -> str:
  """The type that all floating tensors share, "float32" where they differ.

  Raises:
    CheckpointError: a type that is not read here.
  """
  found = set()
  for name, tensor in tensors.items():
    if name in _WHOLE_NUMBERS:
      continue
    if str(tensor.dtype) not in (*DTYPES, "float64"):
      raise CheckpointError(f"{path}: {name} has type {tensor.dtype}")
    found.add(str(tensor.dtype))
  return found.pop() if len(found) == 1 and found < set(DTYPES) else "float32"


def write_folder(
  path: Path, config: Mapping[str, Any], tensors: Tensors, name: str
) -> None:
  """Writes config.json and one safetensors file called `name`.

  Raises:
    CheckpointError: as `new_folder`.
  """
  with new_folder(path) as folder:
    # The metadata is what transformers asks for before it reads a file.
    save_file(tensors, folder / name, metadata={"format": "pt"})
    (folder / name).chmod(0o644)
    text = json.dumps(dict(config), indent=2) + "\n"
    (folder / CONFIG).write_text(text, encoding="utf-8")
