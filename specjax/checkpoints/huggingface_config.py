"""The config.json of the Llama, Qwen2 and Qwen3 families."""

from collections.abc import Mapping
from typing import Any

from specjax.models.config import DecoderConfig, RopeScaling

_FAMILIES = ("llama", "qwen2", "qwen3")


def config_from_dict(
  raw: Mapping[str, Any], dtype: str = "float32"
) -> DecoderConfig:
  """The sizes and switches in a config.json.

  Raises:
    ValueError: something in it that this decoder does not do, by name.
  """
  family = raw.get("model_type")
  if family not in _FAMILIES:
    raise ValueError(
      f"model_type {family!r} is not supported, only {', '.join(_FAMILIES)}"
    )
  for key in ("attention_bias", "mlp_bias", "use_sliding_window"):
    if raw.get(key):
      raise ValueError(f"{key} is not supported")
  if raw.get("hidden_act", "silu") not in ("silu", "swish"):
    raise ValueError(f"hidden_act {raw['hidden_act']!r} is not supported")
  if raw.get("quantization_config"):
    raise ValueError("quantization_config is not supported, only plain weights")
  hidden, heads = (
    _integer(raw, "hidden_size"),
    _integer(raw, "num_attention_heads"),
  )
  rope = raw.get("rope_parameters") or raw.get("rope_scaling") or {}
  theta = rope.get("rope_theta") or raw.get("rope_theta") or 10000.0
  return DecoderConfig(
    vocab_size=_integer(raw, "vocab_size"),
    hidden_size=hidden,
    intermediate_size=_integer(raw, "intermediate_size"),
    num_layers=_integer(raw, "num_hidden_layers"),
    num_heads=heads,
    num_kv_heads=_integer(raw, "num_key_value_heads", heads),
    head_dim=_integer(raw, "head_dim", hidden // max(heads, 1)),
    max_positions=_integer(raw, "max_position_embeddings"),
    rope_theta=float(theta),
    rope_scaling=_rope_scaling(rope),
    rms_norm_eps=float(raw.get("rms_norm_eps", 1e-6)),
    qkv_bias=family == "qwen2",
    qk_norm=family == "qwen3",
    tie_embeddings=bool(raw.get("tie_word_embeddings", False)),
    dtype=dtype,
  )


def _rope_scaling(rope: Mapping[str, Any]) -> RopeScaling | None:
  kind = rope.get("rope_type", rope.get("type", "default"))
  if kind == "default":
    return None
  if kind != "llama3":
    raise ValueError(
      f"rope scaling {kind!r} is not supported, only default and llama3"
    )
  try:
    return RopeScaling(
      factor=float(rope["factor"]),
      low_freq_factor=float(rope["low_freq_factor"]),
      high_freq_factor=float(rope["high_freq_factor"]),
      original_max_positions=int(rope["original_max_position_embeddings"]),
    )
  except KeyError as error:
    raise ValueError(f"llama3 rope scaling lacks {error}") from None


def _integer(raw: Mapping[str, Any], key: str, default: Any = None) -> int:
  value = raw.get(key)
  value = default if value is None else value
  if type(value) is not int:
    raise ValueError(f"{key} must be an integer, got {value!r}")
  return value
