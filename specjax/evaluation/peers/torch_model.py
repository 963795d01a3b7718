"""A checkpoint as a transformers model: the same numbers."""

from typing import Any

import transformers

from specjax.checkpoints.base import Checkpoint
from specjax.evaluation.peers import torch_weights
from specjax.models.config import DecoderConfig


def build(checkpoint: Checkpoint, num_layers: int | None = None) -> Any:
  """The model, or its first `num_layers` layers with the final norm and head.

  Tensors share the memory of the checkpoint's arrays.

  Raises:
    ValueError: more layers than there are.
  """
  config = checkpoint.config
  layers = config.num_layers if num_layers is None else num_layers
  if not 1 <= layers <= config.num_layers:
    raise ValueError(
      f"draft_layers must be 1 to {config.num_layers}, got {layers}"
    )
  wanted = hf_config(config, layers)
  model = transformers.AutoModelForCausalLM.from_config(wanted)
  missing, unexpected = model.load_state_dict(
    torch_weights.state(checkpoint, layers), strict=False, assign=True
  )
  model.tie_weights()
  if set(missing) - {"lm_head.weight"} or unexpected:
    raise ValueError(f"transformers names weights otherwise: {missing[:3]}")
  return model.eval()


def hf_config(config: DecoderConfig, num_layers: int) -> Any:
  """The config.json that says the same."""
  family: Any = transformers.LlamaConfig
  if config.qk_norm:
    family = transformers.Qwen3Config
  elif config.qkv_bias:
    family = transformers.Qwen2Config
  rope: dict[str, Any] = {
    "rope_type": "default",
    "rope_theta": config.rope_theta,
  }
  if (scaling := config.rope_scaling) is not None:
    rope |= {
      "rope_type": "llama3",
      "factor": scaling.factor,
      "low_freq_factor": scaling.low_freq_factor,
      "high_freq_factor": scaling.high_freq_factor,
      "original_max_position_embeddings": scaling.original_max_positions,
    }
  return family(
    vocab_size=config.vocab_size,
    hidden_size=config.hidden_size,
    intermediate_size=config.intermediate_size,
    num_hidden_layers=num_layers,
    num_attention_heads=config.num_heads,
    num_key_value_heads=config.num_kv_heads,
    head_dim=config.head_dim,
    max_position_embeddings=config.max_positions,
    rope_parameters=rope,
    rms_norm_eps=config.rms_norm_eps,
    tie_word_embeddings=config.tie_embeddings,
    dtype=config.dtype,
    # Ends are given with each request.
    bos_token_id=None,
    eos_token_id=None,
    pad_token_id=None,
  )
