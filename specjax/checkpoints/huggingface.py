"""Folders in the Hugging Face layout: config.json beside safetensors."""

import contextlib
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import PyTree
from safetensors import SafetensorError, safe_open

from specjax.checkpoints.base import (
  CheckpointError,
  as_dtype,
  check_sizes,
  check_tensors,
  read_json,
  read_tree,
  shapes,
)
from specjax.checkpoints.huggingface_config import config_from_dict
from specjax.models.config import DecoderConfig

_NAMES = {
  "embed/embedding": "model.embed_tokens.weight",
  "norm/scale": "model.norm.weight",
  "head/kernel": "lm_head.weight",
  "input_norm/scale": "input_layernorm.weight",
  "post_norm/scale": "post_attention_layernorm.weight",
}
_DTYPES = ("F32", "F16", "BF16", "F64")
SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"


def read_huggingface(
  path: str | os.PathLike[str], dtype: Any = "float32"
) -> tuple[DecoderConfig, PyTree]:
  """Reads a folder, or one safetensors file with config.json beside it.

  Returns:
    (config, params): params hold numpy arrays of `dtype`.

  Raises:
    CheckpointError: a family, rope scaling or attention that is not supported;
      a file cut short; a tensor missing, unexpected or of the wrong shape.
  """
  path, target = Path(path), as_dtype(dtype)
  folder = path if path.is_dir() else path.parent
  raw = read_json(folder / "config.json")
  try:
    config = config_from_dict(raw, str(target))
  except (TypeError, ValueError, OverflowError) as error:
    raise CheckpointError(f"{folder / 'config.json'}: {error}") from error
  with _Shards(_files(path)) as shards:
    check_sizes(config, len(shards.found), path)
    if not config.tie_embeddings and "lm_head.weight" not in shards.found:
      raise CheckpointError(
        f"{path} lacks lm_head.weight, and its config.json does not set"
        " tie_word_embeddings"
      )
    wanted = shapes(config)
    names = {path_: tensor_name(path_) for path_ in wanted}
    check_tensors(
      shards.found,
      {names[path_]: shape for path_, shape in wanted.items()},
      path,
      ignored=[name for name in shards.found if _redundant(name, config)],
    )
    return config, read_tree(names, lambda name: shards.read(name, target))


def tensor_name(path: str) -> str:
  """Name in the Hugging Face layout of a parameter's slash-joined path."""
  prefix, _, rest = path.partition("/")
  if not prefix.startswith("layers_"):
    return _NAMES[path]
  layer = f"model.layers.{prefix.removeprefix('layers_')}."
  if rest in _NAMES:
    return layer + _NAMES[rest]
  block, part, leaf = rest.split("/")
  block = "self_attn" if block == "attention" else block
  part = part if part.endswith("_norm") else f"{part}_proj"
  return f"{layer}{block}.{part}.{'bias' if leaf == 'bias' else 'weight'}"


def _redundant(name: str, config: DecoderConfig) -> bool:
  """Tensors that old exports add: rotary tables, and a tied head's copy."""
  return name.endswith("rotary_emb.inv_freq") or (
    config.tie_embeddings and name == "lm_head.weight"
  )


def _files(path: Path) -> list[Path]:
  if path.is_file():
    return [path]
  if (path / INDEX).is_file():
    weights = read_json(path / INDEX).get("weight_map")
    if not isinstance(weights, dict) or not all(
      isinstance(name, str) and name == os.path.basename(name)
      for name in weights.values()
    ):
      raise CheckpointError(f"{path / INDEX} has no sound weight_map")
    files = [path / name for name in sorted(set(weights.values()))]
    for file in files:
      if not file.is_file():
        raise CheckpointError(
          f"{path / INDEX} names {file.name}, which is missing; fetch it again"
        )
    return files
  if (path / SINGLE).is_file():
    return [path / SINGLE]
  raise CheckpointError(f"{path} holds neither {SINGLE} nor {INDEX}")


class _Shards(contextlib.ExitStack):
  """Open safetensors files; tensors are read one at a time."""

  def __init__(self, files: list[Path]):
    super().__init__()
    self.found: dict[str, tuple[int, ...]] = {}
    self.owner: dict[str, tuple[Any, Path]] = {}
    for file in files:
      with _named(file):
        shard = self.enter_context(safe_open(file, framework="numpy"))
        for name in shard.keys():
          part = shard.get_slice(name)
          if part.get_dtype() not in _DTYPES:
            raise CheckpointError(
              f"{file}: {name} has type {part.get_dtype()}, only"
              f" {', '.join(_DTYPES)} are supported"
            )
          self.found[name] = tuple(part.get_shape())
          self.owner[name] = shard, file

  def read(self, name: str, dtype: np.dtype) -> np.ndarray:
    shard, file = self.owner[name]
    with _named(file):
      return shard.get_tensor(name).astype(dtype, copy=False)


@contextlib.contextmanager
def _named(file: Path) -> Generator[None]:
  try:
    yield
  except CheckpointError:
    raise
  except (SafetensorError, OSError, ValueError) as error:
    raise CheckpointError(
      f"{file} is not a sound safetensors file: {error}; fetch it again"
    ) from error
