"""Which of the target's features an EAGLE-3 draft reads, in three countings.

    layer      0      1      2      ...    L-1
    enters     0      1      2             L-1
    leaves     layer_0 layer_1 layer_2     layer_L-1     our taps
    top        1      2      3             L
    nested     0      1      2             L-1

"top" is `eagle_aux_hidden_state_layer_ids` of a config.json, as vLLM and
speculators count: id j is what enters layer j, so that 0 are the embeddings and
L is what leaves the last layer, before the final norm. "nested" is the key of
that name in `eagle_config`, as SGLang and SpecForge count: id j is what leaves
layer j. Without either, EAGLE reads what enters layers 2, L // 2 and L - 3.
"""

from collections.abc import Mapping
from typing import Any

from specjax.models.eagle_config import default_taps

KEY = "eagle_aux_hidden_state_layer_ids"
_LAYER = "layer_"


def read_taps(raw: Mapping[str, Any], num_layers: int) -> tuple[str, ...]:
  """Taps that a config.json asks for.

  Args:
    raw: the whole of it.
    num_layers: of the target.

  Raises:
    ValueError: two lists that differ, or a feature that the target lacks.
  """
  nested = (raw.get("eagle_config") or {}).get(KEY)
  given = {
    "": _leaving(raw.get(KEY), 1, KEY),
    "eagle_config": _leaving(nested, 0, f"eagle_config.{KEY}"),
  }
  found = [layers for layers in given.values() if layers]
  if not found:
    return default_taps(num_layers)
  if found[0] != found[-1]:
    raise ValueError(
      f"{KEY} is {raw[KEY]}, features that enter layers, and in eagle_config"
      f" {nested}, features that leave them: they are not the same"
    )
  for layer in found[0]:
    if layer < 0:
      raise ValueError(f"{KEY} names the embeddings, which are no feature here")
    if layer >= num_layers:
      raise ValueError(
        f"a feature leaves layer {layer}, and the target has {num_layers}"
      )
  return tuple(f"{_LAYER}{layer}" for layer in found[0])


def write_taps(taps: tuple[str, ...]) -> tuple[list[int], list[int]]:
  """(top, nested) ids of taps.

  Raises:
    ValueError: "hidden", which is no layer's output.
  """
  for tap in taps:
    if not tap.startswith(_LAYER):
      raise ValueError(
        f"the feature {tap!r} follows the final norm: no id stands for it"
      )
  layers = [int(tap.removeprefix(_LAYER)) for tap in taps]
  return [layer + 1 for layer in layers], layers


def _leaving(ids: Any, offset: int, key: str) -> list[int]:
  if not ids:
    return []
  if not isinstance(ids, list) or any(type(i) is not int for i in ids):
    raise ValueError(f"{key} must be a list of integers, got {ids!r}")
  return [i - offset for i in ids]
