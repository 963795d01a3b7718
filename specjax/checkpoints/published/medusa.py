"""Medusa heads, as Medusa's own code names them and as vLLM does.

    Medusa   {head}.{block}.linear.weight, .bias   {head}.{blocks}.weight
    vLLM     blocks.{head}.layers.{block}.weight, .bias   lm_heads.{head}.weight
             token_map

FasterDecoding/Medusa `medusa/model/medusa_model.py`, where the blocks of a head
are one and the same; vLLM `model_executor/models/medusa.py`, where each has its
own weights, biases where `medusa_fc_bias` says so, and all heads may share the
target's rows (`original_lm_head`).
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from specjax.checkpoints.base import nest
from specjax.checkpoints.drafter_files import DrafterFile
from specjax.checkpoints.loaded import LoadedModel
from specjax.checkpoints.published import vocabulary
from specjax.checkpoints.published.eagle import check_shared
from specjax.checkpoints.published.files import Tensors
from specjax.models.heads import Medusa, vocabulary_rows

_MAP = "token_map"
_SHARED = ("lm_head.weight", "lm_heads.0.weight")  # one of them


def read_medusa(
  raw: Mapping[str, Any], tensors: Tensors, target: LoadedModel
) -> DrafterFile:
  """Heads in Medusa's own layout; `tensors` is emptied.

  Raises:
    ValueError: what is not done here, or not of one piece.
  """
  number = _integer(raw, "medusa_num_heads")
  blocks = _integer(raw, "medusa_num_layers")
  rows = _shape(tensors, f"0.{blocks}.weight")
  net = Medusa(rows[1], rows[0], number, blocks)
  params = _params(net, tensors, _medusa_names(net))
  return _file(net, params, None, rows[0], target)


def read_vllm(
  raw: Mapping[str, Any], tensors: Tensors, target: LoadedModel
) -> DrafterFile:
  """Heads in vLLM's layout; `tensors` is emptied.

  Raises:
    ValueError: what is not done here, or not of one piece.
  """
  for name in list(tensors):
    tensors[name.replace("medusa_heads.", "")] = tensors.pop(name)
  if raw.get("logit_scale", 1) != 1:
    raise ValueError(f"logit_scale = {raw['logit_scale']} is not supported")
  whole = _integer(raw, "vocab_size")
  size = raw.get("truncated_vocab_size")
  size = whole if size is None else size
  shared = bool(raw.get("original_lm_head"))
  net = Medusa(
    hidden_size=_integer(raw, "hidden_size"),
    vocab_size=size,
    num_heads=_integer(raw, "num_heads"),
    num_layers=_integer(raw, "num_hidden_layers"),
    own_heads=not shared,
  )
  ids = _token_ids(tensors, size, whole)
  if shared:
    _check_rows(tensors, target, ids)
  elif (
    ids is not None
  ):  # rows of the whole vocabulary are cut as vLLM cuts them
    for k in range(net.num_heads):
      rows = tensors.get(f"lm_heads.{k}.weight")
      if rows is not None and len(rows) == whole:
        tensors[f"lm_heads.{k}.weight"] = rows[ids]
  names = _vllm_names(net)
  for path, name in names.items():
    if path.endswith("bias") and name not in tensors:
      tensors[name] = np.zeros(net.hidden_size, np.float32)
  params = _params(net, tensors, names)
  if ids is not None:
    order = np.argsort(ids)
    ids = ids[order].astype(np.int32)
    for path in params:
      if path.endswith("head/kernel"):
        params[path] = params[path][order]
  return _file(net, params, ids, whole, target)


def write_medusa(
  file: DrafterFile, base_model: str
) -> tuple[dict[str, Any], Tensors]:
  """(config.json, tensors in float32), in Medusa's own layout.

  Raises:
    ValueError: heads that this layout has no place for.
  """
  net = _net(file)
  if file.token_ids is not None or not net.own_heads:
    what = "a vocabulary of their own" if net.own_heads else "the target's rows"
    raise ValueError(
      f"Medusa's own layout has no heads with {what}; vllm-medusa has"
    )
  tensors = _tensors(file, _medusa_names(net))
  for k in range(net.num_heads):
    for i in range(1, net.num_layers):
      for part in ("weight", "bias"):
        first = tensors[f"{k}.0.linear.{part}"]
        if not np.array_equal(first, tensors[f"{k}.{i}.linear.{part}"]):
          raise ValueError(
            "the blocks of a head share their weights in Medusa's own code, and"
            " these differ; vllm-medusa keeps them"
          )
  config = {
    "medusa_num_heads": net.num_heads,
    "medusa_num_layers": net.num_layers,
    "base_model_name_or_path": base_model,
  }
  return config, tensors


def write_vllm(
  file: DrafterFile, target: LoadedModel
) -> tuple[dict[str, Any], Tensors]:
  """(config.json, tensors in float32), in vLLM's layout.

  Raises:
    ValueError: no Medusa heads.
  """
  net, ids = _net(file), file.token_ids
  names = _vllm_names(net)
  tensors = _tensors(file, names)
  biases = [name for path, name in names.items() if path.endswith("bias")]
  with_bias = any(tensors[name].any() for name in biases)
  if not with_bias:
    for name in biases:
      del tensors[name]
  if not net.own_heads:
    tensors[_SHARED[1]] = _rows(target, ids)
  if ids is not None:
    tensors[_MAP] = np.asarray(ids, np.int64)
  config = {
    "architectures": ["MedusaModel"],
    "model_type": "medusa",
    "hidden_size": net.hidden_size,
    "vocab_size": file.target_sizes[0],
    "truncated_vocab_size": net.vocab_size,
    "num_heads": net.num_heads,
    "num_hidden_layers": net.num_layers,
    "medusa_fc_bias": with_bias,
    "original_lm_head": not net.own_heads,
    "max_paths": 64,
    "topk": 10,
  }
  return config, tensors


def _medusa_names(net: Medusa) -> dict[str, str]:
  names = {}
  for k in range(net.num_heads):
    for i in range(net.num_layers):
      names[f"heads_{k}/blocks_{i}/kernel"] = f"{k}.{i}.linear.weight"
      names[f"heads_{k}/blocks_{i}/bias"] = f"{k}.{i}.linear.bias"
    names[f"heads_{k}/head/kernel"] = f"{k}.{net.num_layers}.weight"
  return names


def _vllm_names(net: Medusa) -> dict[str, str]:
  names = {}
  for k in range(net.num_heads):
    for i in range(net.num_layers):
      names[f"heads_{k}/blocks_{i}/kernel"] = f"blocks.{k}.layers.{i}.weight"
      names[f"heads_{k}/blocks_{i}/bias"] = f"blocks.{k}.layers.{i}.bias"
    if net.own_heads:
      names[f"heads_{k}/head/kernel"] = f"lm_heads.{k}.weight"
  return names


def _token_ids(tensors: Tensors, size: int, whole: int) -> np.ndarray | None:
  token_map = tensors.pop(_MAP, None)
  if size == whole:
    return None  # vLLM leaves the map unread then
  if token_map is None:
    raise ValueError(f"it says {size} of {whole} tokens and lacks token_map")
  if token_map.shape != (size,):
    raise ValueError(
      f"token_map has shape {token_map.shape}, config.json says {size}"
    )
  return vocabulary.from_map(token_map, whole)


def _check_rows(
  tensors: Tensors, target: LoadedModel, ids: np.ndarray | None
) -> None:
  for name in _SHARED:
    if name in tensors:
      whole = ids is None or len(tensors[name]) != len(ids)
      check_shared(tensors, {name: _rows(target, None if whole else ids)})


def _rows(target: LoadedModel, ids: np.ndarray | None) -> np.ndarray:
  kept = None if ids is None else jnp.asarray(ids)
  return np.asarray(vocabulary_rows(target.params, kept))


def _params(
  net: Medusa, tensors: Tensors, names: Mapping[str, str]
) -> dict[str, np.ndarray]:
  extra = sorted(set(tensors) - set(names.values()))
  if extra:
    raise ValueError(f"{extra[0]} has no place in this architecture")
  d, size = net.hidden_size, net.vocab_size
  params = {}
  for path, name in names.items():
    square = (d,) if path.endswith("bias") else (d, d)
    wanted = (size, d) if path.endswith("head/kernel") else square
    found = _shape(tensors, name)
    if found != wanted:
      raise ValueError(f"{name} has shape {found}, not {wanted}")
    params[path] = tensors.pop(name).astype(np.float32)
  return params


def _shape(tensors: Tensors, name: str) -> tuple[int, ...]:
  if name not in tensors:
    raise ValueError(f"it lacks {name}")
  return tensors[name].shape


def _tensors(file: DrafterFile, names: Mapping[str, str]) -> Tensors:
  found = {
    jax.tree_util.keystr(key, simple=True, separator="/"): np.asarray(leaf)
    for key, leaf in jax.tree_util.tree_leaves_with_path(file.params)
  }
  return {name: found[path] for path, name in names.items()}


def _net(file: DrafterFile) -> Medusa:
  if file.kind != "medusa":
    raise ValueError(f"it holds no Medusa heads but {file.kind}")
  return Medusa(**file.settings)


def _file(
  net: Medusa,
  params: dict[str, np.ndarray],
  token_ids: np.ndarray | None,
  vocab_size: int,
  target: LoadedModel,
) -> DrafterFile:
  return DrafterFile(
    kind="medusa",
    settings=dataclasses.asdict(net),
    target=target.name,
    target_sizes=(vocab_size, net.hidden_size),
    params=nest(params),
    token_ids=token_ids,
  )


def _integer(raw: Mapping[str, Any], key: str) -> int:
  if type(raw.get(key)) is not int:
    raise ValueError(f"{key} must be an integer, got {raw.get(key)!r}")
  return raw[key]
