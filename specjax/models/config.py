"""Sizes and switches of one decoder; frozen, so that jit may hold it static."""

import dataclasses
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class RopeScaling:
  """`llama3` frequency scaling (Llama 3.1 model card and reference code)."""

  factor: float = 8.0
  low_freq_factor: float = 1.0
  high_freq_factor: float = 4.0
  original_max_positions: int = 8192


@dataclasses.dataclass(frozen=True)
class DecoderConfig:
  """One stack for the Llama, Qwen2 and Qwen3 families.

  Attributes:
    qkv_bias: Qwen2's biases on the query, key and value projections.
    qk_norm: Qwen3's RMS norm over each head of queries and keys.
    tie_embeddings: the head is the embedding matrix.
    head_size: outputs of a draft's own head, fewer than its vocabulary; None is
      the whole vocabulary. With it the head is never the embedding matrix.
    dtype: of weights and activations; logits are always float32.
  """

  vocab_size: int
  hidden_size: int
  intermediate_size: int
  num_layers: int
  num_heads: int
  num_kv_heads: int
  head_dim: int
  max_positions: int
  rope_theta: float = 10000.0
  rope_scaling: RopeScaling | None = None
  rms_norm_eps: float = 1e-5
  qkv_bias: bool = False
  qk_norm: bool = False
  tie_embeddings: bool = True
  head_size: int | None = None
  dtype: str = "float32"

  def __post_init__(self):
    if self.num_heads % self.num_kv_heads:
      raise ValueError(
        f"{self.num_heads} query heads do not divide into"
        f" {self.num_kv_heads} key/value heads"
      )
    if self.head_dim % 2:
      raise ValueError(f"head_dim must be even for rope, got {self.head_dim}")
    if self.head_size is not None and not (
      1 <= self.head_size <= self.vocab_size
    ):
      raise ValueError(
        f"a head of {self.head_size} outputs does not fit a vocabulary of"
        f" {self.vocab_size}"
      )

  @classmethod
  def from_json(
    cls, fields: Mapping[str, Any], dtype: str | None = None
  ) -> "DecoderConfig":
    """Of what `dataclasses.asdict` gave, be it through JSON.

    Args:
      dtype: in place of the one that is stated.

    Raises:
      TypeError, ValueError: an unknown field, a missing one or a wrong one.
    """
    stated = dict(fields)
    if stated.get("rope_scaling") is not None:
      stated["rope_scaling"] = RopeScaling(**stated["rope_scaling"])
    if dtype is not None:
      stated["dtype"] = dtype
    return cls(**stated)

  @property
  def num_outputs(self) -> int:
    """Width of the logits."""
    return self.vocab_size if self.head_size is None else self.head_size

  @property
  def own_head(self) -> bool:
    """Whether the head has weights of its own."""
    return self.head_size is not None or not self.tie_embeddings
