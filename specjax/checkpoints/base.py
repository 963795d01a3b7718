"""What every loader shares: the error, the result and the parameter tree."""

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from specjax.models.config import DecoderConfig

Shapes = dict[str, tuple[int, ...]]


class CheckpointError(ValueError):
  """A checkpoint that cannot be found, fetched or trusted, in one line."""

  def __init__(self, message: str):
    super().__init__(" ".join(message.split()))


def in_words(error: Exception) -> str:
  """What is wrong with a settings file that raised this on reading."""
  if isinstance(error, KeyError):
    return f"it does not state {error.args[0]!r}"
  return str(error)


@dataclasses.dataclass(frozen=True)
class Checkpoint:
  """Weights with what is needed to use them.

  Attributes:
    config: sizes and switches of the decoder.
    params: nested dicts of numpy arrays; kernels are [out, in].
    tokenizer_source: a folder with tokenizer.json or the metadata of a GGUF
      file; `specjax.text.Tokenizer.load` takes either.
    name: as it was asked for.
    path: the file or folder it was read from.
  """

  config: DecoderConfig
  params: PyTree
  tokenizer_source: Path | Mapping[str, Any]
  name: str
  path: Path


def shapes(config: DecoderConfig) -> Shapes:
  """Shape of every parameter, keyed by its path joined with slashes."""
  hidden, inner = config.hidden_size, config.intermediate_size
  query = config.num_heads * config.head_dim
  key = config.num_kv_heads * config.head_dim
  layer: Shapes = {
    "input_norm/scale": (hidden,),
    "attention/q/kernel": (query, hidden),
    "attention/k/kernel": (key, hidden),
    "attention/v/kernel": (key, hidden),
    "attention/o/kernel": (hidden, query),
    "post_norm/scale": (hidden,),
    "mlp/gate/kernel": (inner, hidden),
    "mlp/up/kernel": (inner, hidden),
    "mlp/down/kernel": (hidden, inner),
  }
  if config.qkv_bias:
    layer |= {
      "attention/q/bias": (query,),
      "attention/k/bias": (key,),
      "attention/v/bias": (key,),
    }
  if config.qk_norm:
    layer |= {
      "attention/q_norm/scale": (config.head_dim,),
      "attention/k_norm/scale": (config.head_dim,),
    }
  tree: Shapes = {"embed/embedding": (config.vocab_size, hidden)}
  for index in range(config.num_layers):
    tree |= {f"layers_{index}/{path}": size for path, size in layer.items()}
  tree["norm/scale"] = (hidden,)
  if config.own_head:
    tree["head/kernel"] = (config.num_outputs, hidden)
  return tree


def check_tensors(
  found: Mapping[str, tuple[int, ...]],
  wanted: Mapping[str, tuple[int, ...]],
  path: Path,
  ignored: Iterable[str] = (),
) -> None:
  """Raises unless `found` holds exactly the wanted names and shapes."""
  missing = [name for name in wanted if name not in found]
  if missing:
    raise CheckpointError(f"{path} lacks {_some(missing)}")
  extra = [name for name in found if name not in wanted and name not in ignored]
  if extra:
    raise CheckpointError(
      f"{path} holds {_some(extra)}, which this architecture does not have"
    )
  for name, shape in wanted.items():
    if found[name] != shape:
      raise CheckpointError(
        f"{path}: {name} has shape {found[name]}, the config says {shape}"
      )


def check_sizes(config: DecoderConfig, num_tensors: int, path: Path) -> None:
  """Refuses stated sizes that no file of `num_tensors` tensors can mean."""
  for field in dataclasses.fields(config):
    value = getattr(config, field.name)
    if type(value) is int and value < 1:
      raise CheckpointError(f"{path}: {field.name} is {value}")
  if config.num_layers > num_tensors:
    raise CheckpointError(
      f"{path} states {config.num_layers} layers and holds only"
      f" {num_tensors} tensors"
    )


def read_tree(
  names: Mapping[str, str],
  read: Callable[[str], np.ndarray],
  map_: Callable[..., Iterable[np.ndarray]] = map,
) -> PyTree:
  """Nested dicts of `read(name)` for the `names` of slash-joined paths."""
  return nest(dict(zip(names, map_(read, names.values()), strict=True)))


def nest(leaves: Mapping[str, Any]) -> PyTree:
  """Nested dicts from slash-joined paths."""
  tree: dict[str, Any] = {}
  for path, value in leaves.items():
    *parents, last = path.split("/")
    node = tree
    for parent in parents:
      node = node.setdefault(parent, {})
    node[last] = value
  return tree


def read_json(path: Path) -> dict[str, Any]:
  """A JSON object from a file; CheckpointError if it is not one."""
  try:
    value = json.loads(path.read_text(encoding="utf-8"))
  except (OSError, ValueError, RecursionError) as error:
    raise CheckpointError(f"cannot read {path}: {error}") from error
  if not isinstance(value, dict):
    raise CheckpointError(f"{path} does not hold a JSON object")
  return value


def as_dtype(dtype: Any) -> np.dtype:
  """The numpy type of "float32" or "bfloat16"."""
  allowed = {"float32": np.dtype("float32"), "bfloat16": jnp.dtype("bfloat16")}
  try:
    return allowed[str(jnp.dtype(dtype))]
  except (KeyError, TypeError):
    raise CheckpointError(
      f"dtype must be float32 or bfloat16, got {dtype}"
    ) from None


def _some(names: list[str]) -> str:
  shown = ", ".join(names[:3])
  return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
