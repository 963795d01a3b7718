"""What a published config.json may say, and what of it is refused by name."""

from collections.abc import Mapping
from typing import Any

from specjax.checkpoints.huggingface_config import config_from_dict
from specjax.models.config import DecoderConfig

# Value of a switch that changes nothing; any other is refused.
_INERT: dict[str, tuple[Any, ...]] = {
  "norm_before_residual": (False,),
  "norm_before_fc": (False,),
  "add_para_norm": (False,),
  "embed_requires_grad": (False, True),  # of training; see `check_embeddings`
  "parallel_drafting": (False,),
  "mask_token_id": (),
  "ptd_token_id": (),
  "logit_scale": (1,),
  "partial_rotary_factor": (1,),
  "qkv_bias": (False,),
  "hot_vocab_size": (),
  "aux_hidden_state_layer_ids": (),
  "aux_hidden_states_layer_ids": (),
  "target_layer_ids": (),
}
_INERT_IN_EAGLE_CONFIG: dict[str, tuple[Any, ...]] = {
  "use_aux_hidden_state": (True,),
  "use_input_layernorm_in_first_layer": (True,),
  "use_last_layernorm": (True,),
}


def refuse(raw: Mapping[str, Any]) -> None:
  """Raises ValueError for a switch of a config.json that is not done here."""
  for key, inert in _INERT.items():
    _check(key, raw.get(key), inert)
  for key, value in (raw.get("eagle_config") or {}).items():
    if key != "eagle_aux_hidden_state_layer_ids":
      inert = _INERT_IN_EAGLE_CONFIG.get(key, (False,))
      _check(f"eagle_config.{key}", value, inert)
  width = raw.get("target_hidden_size")
  _check("target_hidden_size", width, (raw.get("hidden_size"),))
  rope = raw.get("rope_parameters") or raw.get("rope_scaling") or {}
  _check("partial_rotary_factor", rope.get("partial_rotary_factor"), (1,))
  if any(isinstance(value, dict) for value in rope.values()):
    raise ValueError("rope parameters by type of layer are not supported")
  kinds = set(raw.get("layer_types") or ()) - {"full_attention"}
  _check("layer_types", kinds.pop() if kinds else None, ())


def _check(key: str, value: Any, inert: tuple[Any, ...]) -> None:
  if value is not None and value not in inert:
    raise ValueError(f"{key} = {value!r} is not supported")


def read_layer(raw: Mapping[str, Any], tied: bool) -> DecoderConfig:
  """Sizes of an EAGLE layer.

  Args:
    raw: config.json, or the part of it that describes the layer.
    tied: whether the target's head is its embeddings.

  Raises:
    ValueError: something that this decoder does not do, by name.
  """
  family = raw.get("model_type", "llama")
  if family not in ("llama", "qwen3"):
    raise ValueError(f"model_type {family!r} is not supported for a draft")
  text = dict(raw) | {"model_type": family, "tie_word_embeddings": tied}
  return config_from_dict(text)


def write_layer(layer: DecoderConfig, dtype: str) -> dict[str, Any]:
  """A layer's sizes under the names of Hugging Face.

  Rope parameters take the older form, which newer readers take too.

  Raises:
    ValueError: biases, which no published draft layer has.
  """
  if layer.qkv_bias:
    raise ValueError("a layer with biases on q, k and v has no such layout")
  scaling = layer.rope_scaling
  return {
    "model_type": "qwen3" if layer.qk_norm else "llama",
    "vocab_size": layer.vocab_size,
    "hidden_size": layer.hidden_size,
    "intermediate_size": layer.intermediate_size,
    "num_hidden_layers": layer.num_layers,
    "num_attention_heads": layer.num_heads,
    "num_key_value_heads": layer.num_kv_heads,
    "head_dim": layer.head_dim,
    "hidden_act": "silu",
    "max_position_embeddings": layer.max_positions,
    "rms_norm_eps": layer.rms_norm_eps,
    "rope_theta": layer.rope_theta,
    "rope_scaling": None
    if scaling is None
    else {
      "rope_type": "llama3",
      "factor": scaling.factor,
      "low_freq_factor": scaling.low_freq_factor,
      "high_freq_factor": scaling.high_freq_factor,
      "original_max_position_embeddings": scaling.original_max_positions,
    },
    "attention_bias": False,
    "mlp_bias": False,
    "tie_word_embeddings": False,
    "use_cache": True,
    "torch_dtype": dtype,
  }
