"""Drafters in the layouts of other tools, read and written.

    eagle3        EAGLE-3: SafeAILab/EAGLE, SpecForge, SGLang, vLLM
    eagle         EAGLE-1 and 2: SafeAILab/EAGLE, SGLang, vLLM
    medusa        Medusa's own
    vllm-medusa   vLLM's Medusa
    speculators   EAGLE-3 of vllm-project/speculators, which vLLM reads too

Here a drafter shares embeddings with its target; a file that has its own must
have the target's.
"""

import dataclasses
import os
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from specjax.checkpoints.base import CheckpointError, read_json
from specjax.checkpoints.drafter_files import DrafterFile
from specjax.checkpoints.loaded import LoadedModel
from specjax.checkpoints.published import (
  eagle,
  features,
  files,
  medusa,
  speculators_config,
  switches,
)
from specjax.models.decoder import Transformer

# What each holds, by the kinds of `DrafterFile`.
FORMATS = {
  "eagle3": "eagle3",
  "eagle": "eagle1",
  "medusa": "medusa",
  "vllm-medusa": "medusa",
  "speculators": "eagle3",
}
DTYPES = files.DTYPES


def find_format(path: str | os.PathLike[str]) -> str | None:
  """Which of `FORMATS` a folder has; None where it is no published drafter."""
  folder = Path(path).expanduser()
  if not (folder / files.CONFIG).is_file():
    return None
  try:
    raw = read_json(folder / files.CONFIG)
  except CheckpointError:
    return None
  if "speculators_model_type" in raw:
    return "speculators"
  if "medusa_num_heads" in raw:
    return "medusa"
  if raw.get("model_type") == "medusa":
    return "vllm-medusa"
  names = raw.get("architectures") or [""]
  if "Eagle3" in str(names[0]) or "draft_vocab_size" in raw:
    return "eagle3"
  if "Eagle" in str(names[0]) or "EAGLE" in str(names[0]):
    return "eagle"
  if raw.get("num_hidden_layers") != 1:
    return None
  # EAGLE's own config.json is that of a Llama of one layer.
  binary = (folder / files.BINARY).is_file()
  return (
    "eagle" if binary or "fc.weight" in files.tensor_names(folder) else None
  )


def read(path: str | os.PathLike[str], target: LoadedModel) -> DrafterFile:
  """A published drafter as one of ours, its weights in float32.

  Args:
    path: its folder.
    target: the model it was trained for: it says which layers a feature is of,
      and what the drafter shares with it.

  Returns:
    The drafter; its notes state the `format` and the `dtype` it came in.

  Raises:
    CheckpointError: no such folder, something in it that is not done here, by
      name, or that is not of one piece.
  """
  folder = Path(path).expanduser()
  form = find_format(folder)
  if form is None:
    raise CheckpointError(f"{folder} holds no published drafter")
  raw = read_json(folder / files.CONFIG)
  single, binary = files.SINGLE, files.BINARY
  if form == "medusa":
    single, binary = files.MEDUSA, files.MEDUSA_BINARY
  try:
    if form == "speculators":
      speculators_config.check(raw)  # before its weights are read
    tensors = files.read_tensors(folder, single, binary)
    dtype = files.split_type(tensors, folder)
    file = _read(form, raw, tensors, target)
  except CheckpointError:
    raise
  except (AttributeError, KeyError, TypeError, ValueError) as error:
    raise CheckpointError(f"{folder}: {error}") from error
  return dataclasses.replace(file, notes={"format": form, "dtype": dtype})


def write(
  path: str | os.PathLike[str],
  file: DrafterFile,
  target: LoadedModel,
  form: str,
  *,
  name: str | None = None,
  dtype: str = "float32",
  embeddings: bool = False,
) -> None:
  """Writes a drafter for other tools; the folder appears whole or not at all.

  Args:
    path: a new folder.
    file: the drafter.
    target: the model that it drafts for.
    form: one of `FORMATS`.
    name: of the target where the reader will look for it, for the layouts that
      state it (medusa, speculators); by default the file's.
    dtype: of the weights, one of `DTYPES`.
    embeddings: whether to repeat the target's embeddings in "eagle3", for
      readers that do not take them from the target; "eagle" and "speculators"
      always have them, as their own tools write and expect them.

  Raises:
    CheckpointError: a drafter that this layout has no place for; `path` exists
      or cannot be written.
  """
  if form not in FORMATS:
    raise CheckpointError(f"format must be one of {', '.join(FORMATS)}")
  if dtype not in DTYPES:
    raise CheckpointError(f"dtype must be one of {', '.join(DTYPES)}")
  if embeddings and form != "eagle3":
    raise CheckpointError(f"embeddings are a choice in eagle3, not in {form}")
  if not isinstance(target.model, Transformer) or file.target_sizes != (
    target.model.config.vocab_size,
    target.model.config.hidden_size,
  ):
    raise CheckpointError(f"{target.name} is not the drafter's {file.target}")
  try:
    config, tensors = _write(form, file, target, name or file.target, dtype)
  except (KeyError, TypeError, ValueError) as error:
    raise CheckpointError(f"cannot write {form}: {error}") from error
  if embeddings or form in ("eagle", "speculators"):
    table = target.params["embed"]["embedding"]
    tensors[eagle.EMBEDDINGS] = np.asarray(table, np.float32)
  single = files.MEDUSA if form == "medusa" else files.SINGLE
  tensors = {key: _cast(tensors[key], dtype) for key in tensors}
  files.write_folder(Path(path).absolute(), config, tensors, single)


def _read(
  form: str, raw: dict[str, Any], tensors: files.Tensors, target: LoadedModel
) -> DrafterFile:
  if form == "medusa":
    return medusa.read_medusa(raw, tensors, target)
  if form == "vllm-medusa":
    return medusa.read_vllm(raw, tensors, target)
  if form == "eagle":
    return eagle.read_eagle1(raw, tensors, target)
  if form == "eagle3":
    return eagle.read_eagle3(raw, raw, tensors, "midlayer.", target)
  layer = speculators_config.layer(raw)
  return eagle.read_eagle3(raw, layer, tensors, "layers.0.", target)


def _write(
  form: str, file: DrafterFile, target: LoadedModel, name: str, dtype: str
) -> tuple[dict[str, Any], files.Tensors]:
  if form == "medusa":
    return medusa.write_medusa(file, name)
  if form == "vllm-medusa":
    return medusa.write_vllm(file, target)
  if form == "eagle":
    return eagle.write_eagle1(file, dtype)
  prefix = "layers.0." if form == "speculators" else "midlayer."
  config, tensors = eagle.write_eagle3(file, prefix, target)
  top, nested = features.write_taps(config.taps)
  layer = switches.write_layer(config.layer, dtype)
  text = {
    "torch_dtype": dtype,
    "draft_vocab_size": config.draft_vocab_size or config.layer.vocab_size,
    "fc_norm": config.fc_norm,
    "norm_output": config.norm_output,
    features.KEY: top,
  }
  if form == "speculators":
    return speculators_config.write(layer, text, name, target), tensors
  if len(top) != 3:
    raise ValueError(f"EAGLE-3's own layout has 3 features, not {len(top)}")
  if config.layer.qk_norm:
    raise ValueError("EAGLE-3's own layout has no norms of queries and keys")
  own = {"use_aux_hidden_state": True, features.KEY: nested}
  names = {"architectures": ["LlamaForCausalLMEagle3"]}
  return names | layer | text | {"eagle_config": own}, tensors


def _cast(tensor: np.ndarray, dtype: str) -> np.ndarray:
  if tensor.dtype == bool or np.issubdtype(tensor.dtype, np.integer):
    return tensor
  return np.ascontiguousarray(tensor.astype(jnp.dtype(dtype)))
