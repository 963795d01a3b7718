"""The config.json of vllm-project/speculators, for its EAGLE-3 alone.

See `speculators/config.py` and `speculators/models/eagle3/config.py`, 0.9.
"""

from collections.abc import Mapping
from typing import Any

from specjax.checkpoints.loaded import LoadedModel
from specjax.models.decoder import Transformer

_VERSION = "0.9.0"  # of the layout that is written
_TOKENS = 4  # a round: a reader's default, not the drafter's limit


def check(raw: Mapping[str, Any]) -> None:
  """Raises ValueError for a speculator of another kind."""
  kind = raw["speculators_model_type"]
  if kind != "eagle3":
    raise ValueError(
      f"speculators_model_type {kind!r} is not supported, only eagle3"
    )
  layer(raw)


def layer(raw: Mapping[str, Any]) -> Mapping[str, Any]:
  """The part of a config.json that describes the layer.

  Raises:
    ValueError: there is none.
  """
  found = raw.get("transformer_layer_config")
  if not isinstance(found, dict):
    raise ValueError("it lacks transformer_layer_config")
  return found


def write(
  layer_config: dict[str, Any],
  text: dict[str, Any],
  verifier: str,
  target: LoadedModel,
) -> dict[str, Any]:
  """config.json of an EAGLE-3 speculator.

  Args:
    layer_config: of the layer.
    text: what EAGLE-3 has beside it.
    verifier: where the reader finds the target.
    target: the target.
  """
  greedy = {
    "proposal_type": "greedy",
    "speculative_tokens": _TOKENS,
    "verifier_accept_k": 1,
    "accept_tolerance": 0.0,
  }
  return {
    "architectures": ["Eagle3Speculator"],
    "speculators_model_type": "eagle3",
    "speculators_version": _VERSION,
    "speculators_config": {
      "algorithm": "eagle3",
      "proposal_methods": [greedy],
      "default_proposal_method": "greedy",
      "verifier": {
        "name_or_path": verifier,
        "architectures": [_architecture(target)],
      },
    },
    "transformer_layer_config": layer_config,
    "norm_before_residual": False,
    "norm_before_fc": False,
    "tie_word_embeddings": False,
  } | text


def _architecture(target: LoadedModel) -> str:
  config = (
    target.model.config if isinstance(target.model, Transformer) else None
  )
  if config is not None and config.qk_norm:
    return "Qwen3ForCausalLM"
  if config is not None and config.qkv_bias:
    return "Qwen2ForCausalLM"
  return "LlamaForCausalLM"
