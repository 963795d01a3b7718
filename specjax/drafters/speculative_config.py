"""vLLM's `speculative_config`, read as vLLM reads it.

Keys, the inference of a missing method and the defaults of prompt lookup follow
vllm/config/speculative.py (SpeculativeConfig.__post_init__).
"""

import json
from collections.abc import Mapping
from typing import Any

from specjax.drafters.settings import DrafterSettings

_NAMES = {
  "ngram": "ngram",
  "[ngram]": "ngram",
  "draft_model": "model",
  "medusa": "medusa",
  "eagle": "eagle",
  "eagle3": "eagle3",
}
_KEYS = (
  "method",
  "model",
  "num_speculative_tokens",
  "prompt_lookup_max",
  "prompt_lookup_min",
)
_REFUSED = {
  "mlp_speculator": "needs recurrent heads, for which there is no drafter here",
  "mtp": "needs the target's own multi-token heads, which no model here has",
  "suffix": "keeps its trees on the host, for which there is no drafter here",
  "ngram_gpu": "is vLLM's other kernel for prompt lookup; use ngram",
  "custom_class": "is given here as --drafter=package.module:Class",
}


def parse(text: str | Mapping[str, Any]) -> tuple[str, DrafterSettings]:
  """(name of the drafter, its settings).

  Raises:
    ValueError: no JSON object, an unknown key or method (by name), a value of
      the wrong kind.
  """
  config = _object(text)
  if unknown := sorted(set(config) - set(_KEYS)):
    raise ValueError(
      f"speculative_config has the unknown key {unknown[0]!r}; supported are"
      f" {', '.join(_KEYS)}"
    )
  for key in _KEYS[2:]:
    if not isinstance(config.get(key, 1), int) or config.get(key) is True:
      raise ValueError(f"speculative_config: {key} must be a whole number")
  for key in _KEYS[:2]:
    if not isinstance(config.get(key, ""), str):
      raise ValueError(f"speculative_config: {key} must be a string")
  method, model = _method(config), config.get("model")
  if method not in _NAMES:
    reason = _REFUSED.get(method, "is unknown")
    raise ValueError(
      f"speculative_config: method {method!r} {reason}; supported are"
      " ngram, draft_model, medusa, eagle and eagle3"
    )
  name, tokens = _NAMES[method], config.get("num_speculative_tokens")
  if name == "ngram":
    low, high = config.get("prompt_lookup_min"), config.get("prompt_lookup_max")
    if low is None and high is None:
      low = high = 5
    return name, DrafterSettings.of(
      num_speculative_tokens=tokens,
      min_ngram=high if low is None else low,
      max_ngram=low if high is None else high,
    )
  if model is None:
    raise ValueError(
      f'speculative_config: method "{method}" needs "model", its name'
    )
  return name, DrafterSettings(num_speculative_tokens=tokens, draft_model=model)


def _object(text: str | Mapping[str, Any]) -> dict[str, Any]:
  if isinstance(text, Mapping):
    return dict(text)
  try:
    config = json.loads(text)
  except (ValueError, RecursionError) as error:
    raise ValueError(f"speculative_config is no JSON: {error}") from error
  if not isinstance(config, dict):
    raise ValueError("speculative_config must be a JSON object")
  return {key: value for key, value in config.items() if value is not None}


def _method(config: Mapping[str, Any]) -> str:
  """The method, inferred from the model's name where it is left out."""
  method, model = config.get("method"), config.get("model")
  if method is not None:
    return method
  if model is None:
    raise ValueError('speculative_config needs "method" or "model"')
  if model in _NAMES and _NAMES[model] == "ngram":
    return "ngram"
  for part, found in (("eagle-", "eagle"), ("eagle3", "eagle3")):
    if part in model.lower():
      return found
  return "draft_model"
