"""Published sizes of known decoders, by lower-case name.

Each entry restates the `config.json` of the repository that `SOURCES` names.
"""

import dataclasses

from specjax.models.config import DecoderConfig, RopeScaling

_SMOLLM2 = DecoderConfig(
  vocab_size=49152,
  hidden_size=576,
  intermediate_size=1536,
  num_layers=30,
  num_heads=9,
  num_kv_heads=3,
  head_dim=64,
  max_positions=8192,
  rope_theta=100000.0,
)
_LLAMA2 = DecoderConfig(
  vocab_size=32000,
  hidden_size=4096,
  intermediate_size=11008,
  num_layers=32,
  num_heads=32,
  num_kv_heads=32,
  head_dim=128,
  max_positions=4096,
  tie_embeddings=False,
)
_LLAMA3 = dataclasses.replace(
  _LLAMA2,
  vocab_size=128256,
  intermediate_size=14336,
  num_kv_heads=8,
  max_positions=8192,
  rope_theta=500000.0,
)
_LLAMA31 = dataclasses.replace(
  _LLAMA3, max_positions=131072, rope_scaling=RopeScaling()
)
_LLAMA32 = dataclasses.replace(
  _LLAMA31, rope_scaling=RopeScaling(factor=32.0), tie_embeddings=True
)
_QWEN25 = DecoderConfig(
  vocab_size=151936,
  hidden_size=896,
  intermediate_size=4864,
  num_layers=24,
  num_heads=14,
  num_kv_heads=2,
  head_dim=64,
  max_positions=32768,
  rope_theta=1000000.0,
  rms_norm_eps=1e-6,
  qkv_bias=True,
)
_QWEN25_LARGE = dataclasses.replace(
  _QWEN25, vocab_size=152064, head_dim=128, tie_embeddings=False
)
_QWEN3 = DecoderConfig(
  vocab_size=151936,
  hidden_size=1024,
  intermediate_size=3072,
  num_layers=28,
  num_heads=16,
  num_kv_heads=8,
  head_dim=128,
  max_positions=40960,
  rope_theta=1000000.0,
  rms_norm_eps=1e-6,
  qk_norm=True,
)


def _sized(base, hidden, intermediate, layers, heads, kv_heads, **changes):
  return dataclasses.replace(
    base,
    hidden_size=hidden,
    intermediate_size=intermediate,
    num_layers=layers,
    num_heads=heads,
    num_kv_heads=kv_heads,
    **changes,
  )


PRESETS: dict[str, DecoderConfig] = {
  "smollm2-135m": _SMOLLM2,
  "smollm2-360m": _sized(_SMOLLM2, 960, 2560, 32, 15, 5),
  "smollm2-1.7b": _sized(_SMOLLM2, 2048, 8192, 24, 32, 32, rope_theta=130000.0),
  "llama-2-7b": _LLAMA2,
  "llama-3-8b": _LLAMA3,
  "llama-3.1-8b": _LLAMA31,
  "llama-3.2-1b": _sized(_LLAMA32, 2048, 8192, 16, 32, 8, head_dim=64),
  "llama-3.2-3b": _sized(_LLAMA32, 3072, 8192, 28, 24, 8),
  "qwen2.5-0.5b": _QWEN25,
  "qwen2.5-1.5b": _sized(_QWEN25, 1536, 8960, 28, 12, 2, head_dim=128),
  "qwen2.5-3b": _sized(_QWEN25, 2048, 11008, 36, 16, 2, head_dim=128),
  "qwen2.5-7b": _sized(_QWEN25_LARGE, 3584, 18944, 28, 28, 4),
  "qwen2.5-14b": _sized(_QWEN25_LARGE, 5120, 13824, 48, 40, 8),
  "qwen2.5-32b": _sized(_QWEN25_LARGE, 5120, 27648, 64, 40, 8),
  "qwen2.5-72b": _sized(_QWEN25_LARGE, 8192, 29568, 80, 64, 8),
  "qwen3-0.6b": _QWEN3,
  "qwen3-1.7b": _sized(_QWEN3, 2048, 6144, 28, 16, 8),
  "qwen3-4b": _sized(_QWEN3, 2560, 9728, 36, 32, 8),
  "qwen3-8b": _sized(_QWEN3, 4096, 12288, 36, 32, 8, tie_embeddings=False),
  "qwen3-32b": _sized(_QWEN3, 5120, 25600, 64, 64, 8, tie_embeddings=False),
}

SOURCES: dict[str, str] = {
  "smollm2-135m": "HuggingFaceTB/SmolLM2-135M",
  "smollm2-360m": "HuggingFaceTB/SmolLM2-360M",
  "smollm2-1.7b": "HuggingFaceTB/SmolLM2-1.7B",
  "llama-2-7b": "meta-llama/Llama-2-7b-hf",
  "llama-3-8b": "meta-llama/Meta-Llama-3-8B",
  "llama-3.1-8b": "meta-llama/Llama-3.1-8B",
  "llama-3.2-1b": "meta-llama/Llama-3.2-1B",
  "llama-3.2-3b": "meta-llama/Llama-3.2-3B",
  "qwen2.5-0.5b": "Qwen/Qwen2.5-0.5B-Instruct",
  "qwen2.5-1.5b": "Qwen/Qwen2.5-1.5B-Instruct",
  "qwen2.5-3b": "Qwen/Qwen2.5-3B-Instruct",
  "qwen2.5-7b": "Qwen/Qwen2.5-7B-Instruct",
  "qwen2.5-14b": "Qwen/Qwen2.5-14B-Instruct",
  "qwen2.5-32b": "Qwen/Qwen2.5-32B-Instruct",
  "qwen2.5-72b": "Qwen/Qwen2.5-72B-Instruct",
  "qwen3-0.6b": "Qwen/Qwen3-0.6B",
  "qwen3-1.7b": "Qwen/Qwen3-1.7B",
  "qwen3-4b": "Qwen/Qwen3-4B",
  "qwen3-8b": "Qwen/Qwen3-8B",
  "qwen3-32b": "Qwen/Qwen3-32B",
}

_SUFFIXES = ("-instruct", "-chat", "-base")


def preset(name: str) -> DecoderConfig:
  """The sizes of a published decoder.

  Args:
    name: a key of `PRESETS`, in any case; "-instruct", "-chat" and "-base"
      variants have the sizes of their family.

  Raises:
    ValueError: the name is unknown.
  """
  key = name.lower()
  for suffix in _SUFFIXES:
    key = key.removesuffix(suffix)
  if key not in PRESETS:
    raise ValueError(f"no preset {name!r}: choose one of {', '.join(PRESETS)}")
  return PRESETS[key]
