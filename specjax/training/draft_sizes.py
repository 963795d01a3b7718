"""Sizes of a draft model: cut from its target, or fresh in its proportions."""

import dataclasses
from collections.abc import Sequence

from specjax.models.config import DecoderConfig


def cut_config(
  target: DecoderConfig, num_layers: int, head_size: int | None
) -> DecoderConfig:
  """Of a draft of the target's width."""
  return dataclasses.replace(target, num_layers=num_layers, head_size=head_size)


def fresh_config(
  target: DecoderConfig,
  *,
  num_layers: int,
  hidden_size: int,
  head_size: int | None = None,
) -> DecoderConfig:
  """Of a draft of another width: heads of the target's size, and its ratios.

  Raises:
    ValueError: the width is no whole number of key/value groups.
  """
  group = target.num_heads // target.num_kv_heads
  unit = target.head_dim * group
  if num_layers < 1 or hidden_size < 1 or hidden_size % unit:
    raise ValueError(
      f"a draft needs at least one layer and a width that {unit} divides, got"
      f" {num_layers} layers of width {hidden_size}"
    )
  wide = target.intermediate_size * hidden_size // target.hidden_size
  return dataclasses.replace(
    target,
    num_layers=num_layers,
    hidden_size=hidden_size,
    intermediate_size=wide,
    num_heads=hidden_size // target.head_dim,
    num_kv_heads=hidden_size // unit,
    head_size=head_size,
  )


def check_cut(
  own: DecoderConfig, target: DecoderConfig, layers: Sequence[int]
) -> None:
  """Raises ValueError unless these layers of the target make the draft."""
  if len(layers) != own.num_layers:
    raise ValueError(
      f"{len(layers)} layers of the target do not make {own.num_layers}"
    )
  if outside := [i for i in layers if not 0 <= i < target.num_layers]:
    raise ValueError(
      f"the target has no layer {outside[0]}: choose 0 to"
      f" {target.num_layers - 1}"
    )
  free = dict(num_layers=1, head_size=None, tie_embeddings=True, dtype="")
  same = [dataclasses.replace(one, **free) for one in (own, target)]
  if same[0] != same[1]:
    raise ValueError("layers of the target fit a draft of its own sizes only")
