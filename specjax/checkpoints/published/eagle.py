"""EAGLE drafts of four readers: EAGLE, SGLang, vLLM, speculators.

Tensors are named as in a Llama; the one layer is "midlayer" in EAGLE-3's own
files and "layers.0" in those of EAGLE-1, EAGLE-2 and speculators. The target's
embeddings may be among them. See SafeAILab/EAGLE `eagle/model/cnets.py` and
`cnets1.py`, vLLM `llama_eagle3.py`, speculators `models/eagle3`.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from specjax.checkpoints.base import nest
from specjax.checkpoints.drafter_files import DrafterFile
from specjax.checkpoints.huggingface import tensor_name
from specjax.checkpoints.loaded import LoadedModel
from specjax.checkpoints.published import features, switches, vocabulary
from specjax.checkpoints.published.files import Tensors
from specjax.models.config import DecoderConfig
from specjax.models.decoder import Transformer
from specjax.models.eagle import EagleHead
from specjax.models.eagle_config import EagleConfig
from specjax.models.heads import vocabulary_rows

EMBEDDINGS = "embed_tokens.weight"
_HEAD = "lm_head.weight"
_NAMES = {
  "fc/kernel": "fc.weight",
  "fc/bias": "fc.bias",
  "norm/scale": "norm.weight",
  "head/kernel": _HEAD,
}


def read_eagle3(
  raw: Mapping[str, Any],
  layer: Mapping[str, Any],
  tensors: Tensors,
  prefix: str,
  target: LoadedModel,
) -> DrafterFile:
  """An EAGLE-3 draft.

  Args:
    raw: config.json.
    layer: the part of it that describes the layer.
    tensors: all of the file's; emptied.
    prefix: of the layer's names, "midlayer." or "layers.0.".
    target: what it drafts for.

  Raises:
    ValueError: what is not done here, or not of one piece, by name.
  """
  width = layer.get("hidden_size")
  for text in (layer, dict(raw) | {"hidden_size": width}):
    switches.refuse(text)
  own = _config_of(target)
  sizes = switches.read_layer(layer, own.tie_embeddings)
  reduced = raw.get("draft_vocab_size")
  whole = reduced is None or reduced == sizes.vocab_size
  nested = raw.get("eagle_config") or {}
  config = EagleConfig(
    layer=sizes,
    taps=features.read_taps(raw, own.num_layers),
    draft_vocab_size=None if whole else reduced,
    norm_output=bool(raw.get("norm_output"))
    or bool(nested.get("return_hidden_post_norm")),
    fc_norm=bool(raw.get("fc_norm")),
  )
  check_shared(tensors, {EMBEDDINGS: _embedding(target)})
  ids = _token_ids(tensors, config)
  params = _params(config, tensors, prefix)
  if ids is not None:  # in another order than ours, perhaps
    order = np.argsort(ids)
    params["head/kernel"] = params["head/kernel"][order]
    ids = None if whole else ids[order].astype(np.int32)
  return _file("eagle3", config, params, ids, target)


def read_eagle1(
  raw: Mapping[str, Any], tensors: Tensors, target: LoadedModel
) -> DrafterFile:
  """An EAGLE-1 or 2 draft, of one net; see `read_eagle3`."""
  switches.refuse(raw)
  own = _config_of(target)
  config = EagleConfig(
    layer=switches.read_layer(raw, own.tie_embeddings),
    taps=("hidden",),
    version=1,
  )
  rows = np.asarray(vocabulary_rows(target.params))
  check_shared(tensors, {EMBEDDINGS: _embedding(target), _HEAD: rows})
  if "fc.bias" not in tensors:  # "bias": false in config.json
    width = config.layer.hidden_size
    tensors["fc.bias"] = np.zeros(width, np.float32)
  params = _params(config, tensors, "layers.0.")
  return _file("eagle1", config, params, None, target)


def write_eagle3(
  file: DrafterFile, prefix: str, target: LoadedModel
) -> tuple[EagleConfig, Tensors]:
  """(config, tensors in float32 and the maps of a reduced vocabulary).

  Where the head is the target's, its rows are written as the draft's own.

  Raises:
    ValueError: a draft that this layout has no place for.
  """
  config = _config(file, "eagle3")
  if config.shares_head:
    ids = None if file.token_ids is None else jnp.asarray(file.token_ids)
    rows = np.asarray(vocabulary_rows(target.params, ids))
    params = {**file.params, "head": {"kernel": rows}}
    file = dataclasses.replace(file, params=params)
    config = dataclasses.replace(config, own_head=True)
  tensors = _tensors(config, file, prefix)
  if file.token_ids is not None:
    size = config.layer.vocab_size
    tensors |= vocabulary.to_offsets(file.token_ids, size)
  return config, tensors


def write_eagle1(
  file: DrafterFile, dtype: str
) -> tuple[dict[str, Any], Tensors]:
  """(config.json for weights of `dtype`, tensors in float32).

  Raises:
    ValueError: a draft that this layout has no place for.
  """
  config = _config(file, "eagle1")
  if config.taps != ("hidden",):
    raise ValueError(f"EAGLE-1 reads the last feature alone, not {config.taps}")
  if file.token_ids is not None:
    raise ValueError("EAGLE-1 has the target's head, no reduced vocabulary")
  tensors = _tensors(config, file, "layers.0.")
  text: dict[str, Any] = {"architectures": ["LlamaForCausalLMEagle"]}
  text |= switches.write_layer(config.layer, dtype)
  if config.layer.qk_norm:
    raise ValueError("EAGLE-1 has no norms of queries and keys")
  if not tensors["fc.bias"].any():
    del tensors["fc.bias"]
    text["bias"] = False  # what EAGLE's own loader asks for
  return text, tensors


def check_shared(tensors: Tensors, shared: Mapping[str, np.ndarray]) -> None:
  """Takes out what a file repeats of its target, once it is found the same.

  Raises:
    ValueError: it is not, beyond the rounding of the coarser of both types.
  """
  for name, wanted in shared.items():
    found = tensors.pop(name, None)
    if found is None:
      continue
    coarse = max(_step(found.dtype), _step(wanted.dtype))
    a, b = found.astype(np.float32), wanted.astype(np.float32)
    if a.shape != b.shape or not np.allclose(a, b, coarse, coarse / 128):
      raise ValueError(f"{name} is not the target's: its own is not supported")


def _step(dtype: np.dtype) -> float:
  return 1e-6 if dtype.itemsize >= 4 else 2.0**-7


def _embedding(target: LoadedModel) -> np.ndarray:
  return np.asarray(target.params["embed"]["embedding"])


def _config_of(target: LoadedModel) -> DecoderConfig:
  if not isinstance(target.model, Transformer):
    raise ValueError(f"{target.name} has no features for EAGLE to read")
  return target.model.config


def _names(
  config: EagleConfig, prefix: str
) -> dict[tuple[str, str], jax.ShapeDtypeStruct]:
  """{(path, tensor's name): shape} of what is trained."""
  tree = jax.eval_shape(EagleHead(config).init, jax.random.key(0))
  names = {}
  for key, leaf in jax.tree_util.tree_leaves_with_path(tree):
    path = jax.tree_util.keystr(key, simple=True, separator="/")
    names[path, _name(path, prefix)] = leaf
  return names


def _name(path: str, prefix: str) -> str:
  if path in _NAMES:
    return _NAMES[path]
  first, _, rest = path.partition("/")
  if first.startswith("fc_norm_"):
    return f"fc_norm.{first.removeprefix('fc_norm_')}.weight"
  if rest == "hidden_norm/scale":
    return f"{prefix}hidden_norm.weight"
  name = tensor_name(f"layers_0/{rest}")
  return prefix + name.removeprefix("model.layers.0.")


def _params(
  config: EagleConfig, tensors: Tensors, prefix: str
) -> dict[str, np.ndarray]:
  """Weights by path; raises ValueError unless names and shapes are right."""
  wanted = _names(config, prefix)
  extra = sorted(
    name
    for name in set(tensors) - {name for _, name in wanted}
    if not name.endswith("rotary_emb.inv_freq")
  )
  if extra:
    raise ValueError(f"{extra[0]} has no place in this architecture")
  params = {}
  for (path, name), leaf in wanted.items():
    if name not in tensors:
      raise ValueError(f"it lacks {name}")
    found = tensors.pop(name)
    if found.shape != leaf.shape:
      raise ValueError(
        f"{name} has shape {found.shape}, config.json says {leaf.shape}"
      )
    params[path] = found.astype(np.float32)
  return params


def _tensors(config: EagleConfig, file: DrafterFile, prefix: str) -> Tensors:
  found = {
    jax.tree_util.keystr(key, simple=True, separator="/"): np.asarray(leaf)
    for key, leaf in jax.tree_util.tree_leaves_with_path(file.params)
  }
  return {name: found[path] for path, name in _names(config, prefix)}


def _token_ids(tensors: Tensors, config: EagleConfig) -> np.ndarray | None:
  """Target ids of the draft's, None for one vocabulary; takes the maps out."""
  d2t, t2d = tensors.pop("d2t", None), tensors.pop("t2d", None)
  size, whole = config.draft_vocab_size, config.layer.vocab_size
  if d2t is None:
    if size is not None:
      raise ValueError(f"it says {size} of {whole} tokens and lacks d2t")
    return None
  if d2t.shape != (size or whole,):
    raise ValueError(f"d2t has shape {d2t.shape}, config.json says {size}")
  ids = vocabulary.from_offsets(d2t, t2d, whole)
  if size is None and np.array_equal(ids, np.arange(whole)):
    return None
  return ids


def _config(file: DrafterFile, kind: str) -> EagleConfig:
  if file.kind != kind:
    raise ValueError(f"it is no {kind} draft but {file.kind}")
  return EagleConfig.from_json(file.settings, "float32")


def _file(
  kind: str,
  config: EagleConfig,
  params: dict[str, np.ndarray],
  token_ids: np.ndarray | None,
  target: LoadedModel,
) -> DrafterFile:
  settings = dataclasses.asdict(config) | {"taps": list(config.taps)}
  return DrafterFile(
    kind=kind,
    settings=settings,
    target=target.name,
    target_sizes=(config.layer.vocab_size, config.layer.hidden_size),
    params=nest(params),
    token_ids=token_ids,
  )
