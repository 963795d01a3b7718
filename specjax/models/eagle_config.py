"""Sizes and switches of an EAGLE draft; frozen, so that jit holds it static."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from specjax.models.config import DecoderConfig

VERSIONS = (1, 3)


@dataclasses.dataclass(frozen=True)
class EagleConfig:
  """Sizes and switches of one EAGLE draft; see `config_for`.

  Attributes:
    layer: sizes of its one layer; hidden size and vocabulary are the target's.
    taps: target features that it reads, each as wide as the hidden size.
    version: 3 fuses its features by `fc`, norms both halves of the layer's
      input and has its own norm and head. 1 reads "hidden", predicts the next
      such feature, and has the target's head.
    draft_vocab_size: tokens that it can say; None is the whole vocabulary.
    norm_output: hands its hidden state on after its norm (EAGLE-3.1).
    fc_norm: norms each feature before `fc` (EAGLE-3.1).
    own_head: whether version 3 has a head of its own; else the target's rows
      of the draft vocabulary read it, as they read version 1 in any case.

  Raises:
    ValueError: what does not fit together.
  """

  layer: DecoderConfig
  taps: tuple[str, ...]
  version: int = 3
  draft_vocab_size: int | None = None
  norm_output: bool = False
  fc_norm: bool = False
  own_head: bool = True

  def __post_init__(self):
    if self.version not in VERSIONS:
      raise ValueError(f"EAGLE has versions 1 and 3 here, got {self.version}")
    if self.layer.num_layers != 1:
      raise ValueError(
        f"EAGLE drafts with 1 layer, not {self.layer.num_layers}"
      )
    if not self.taps or len(set(self.taps)) != len(self.taps):
      raise ValueError(f"EAGLE needs features, each once, got {self.taps}")
    if self.version == 1 and len(self.taps) != 1:
      raise ValueError(f"EAGLE-1 reads one feature, got {self.taps}")
    if self.version == 1 and (self.norm_output or self.fc_norm):
      raise ValueError("norm_output and fc_norm are switches of EAGLE-3")
    if self.version == 1 and not self.own_head:
      raise ValueError("own_head is a switch of EAGLE-3; EAGLE-1 never has one")
    size = self.draft_vocab_size
    if size is not None and not 1 <= size <= self.layer.vocab_size:
      raise ValueError(
        f"a draft vocabulary of {size} does not fit into the target's"
        f" {self.layer.vocab_size}"
      )

  @property
  def shares_head(self) -> bool:
    """Whether the target's rows read its output."""
    return self.version == 1 or not self.own_head

  @classmethod
  def from_json(
    cls, fields: Mapping[str, Any], dtype: str | None = None
  ) -> "EagleConfig":
    """Of what `dataclasses.asdict` gave, be it through JSON.

    Args:
      dtype: of the layer, in place of the one that is stated.

    Raises:
      KeyError, TypeError, ValueError: an unknown field, a missing one or a
        wrong one.
    """
    stated = dict(fields)
    layer = DecoderConfig.from_json(stated.pop("layer"), dtype)
    return cls(layer, tuple(stated.pop("taps")), **stated)


def default_taps(num_layers: int) -> tuple[str, str, str]:
  """A low, a middle and a high layer: outputs of layers 1, L/2 - 1 and L - 4.

  Raises:
    ValueError: the three are not distinct and ascending, below 7 layers.
  """
  layers = (1, num_layers // 2 - 1, num_layers - 4)
  if not layers[0] < layers[1] < layers[2]:
    raise ValueError(
      f"a target of {num_layers} layers has no three default features (7 layers"
      " have): name them, taps=('layer_0', 'layer_1', 'hidden') say"
    )
  low, middle, high = layers
  return f"layer_{low}", f"layer_{middle}", f"layer_{high}"


def config_for(
  target: DecoderConfig, *, taps: tuple[str, ...] | None = None, **changes
) -> EagleConfig:
  """A draft whose layer has the sizes of the target's.

  Args:
    target: sizes of the target.
    taps: features; by default "hidden" for version 1, else `default_taps`.
    **changes: fields of `EagleConfig`.

  Raises:
    ValueError: what does not fit together.
  """
  if taps is None:
    first = changes.get("version") == 1
    taps = ("hidden",) if first else default_taps(target.num_layers)
  layer = dataclasses.replace(
    target, num_layers=1, qkv_bias=False, qk_norm=False
  )
  return EagleConfig(layer, taps, **changes)
