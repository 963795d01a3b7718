"""What of a decoder sets its bytes and operations."""

import dataclasses
from typing import Protocol, runtime_checkable


@runtime_checkable
class DecoderSizes(Protocol):
  """Sizes as configurations of decoders name them."""

  @property
  def vocab_size(self) -> int: ...
  @property
  def hidden_size(self) -> int: ...
  @property
  def intermediate_size(self) -> int: ...
  @property
  def num_layers(self) -> int: ...
  @property
  def num_heads(self) -> int: ...
  @property
  def num_kv_heads(self) -> int: ...
  @property
  def head_dim(self) -> int: ...
  @property
  def qkv_bias(self) -> bool: ...
  @property
  def qk_norm(self) -> bool: ...
  @property
  def tie_embeddings(self) -> bool: ...


@dataclasses.dataclass(frozen=True)
class ModelShape:
  """A decoder to a roofline.

  Attributes:
    parameters: read once a pass, and 2 operations each for every token.
    stored: parameters that memory holds for it; less than `parameters` for a
      head that shares some of the target's.
    num_layers: with attention and a cache.
    hidden_size: of the activations that tensor parallelism sums.
  """

  parameters: int
  stored: int
  num_layers: int
  num_heads: int
  num_kv_heads: int
  head_dim: int
  hidden_size: int

  @property
  def cache_values(self) -> int:
    """Numbers that the cache holds for one token: keys and values."""
    return 2 * self.num_layers * self.num_kv_heads * self.head_dim

  @property
  def attention_operations(self) -> int:
    """Of one query with one token of context: two products."""
    return 4 * self.num_layers * self.num_heads * self.head_dim


def _layer_parameters(sizes: DecoderSizes) -> int:
  queries = sizes.num_heads * sizes.head_dim
  keys = sizes.num_kv_heads * sizes.head_dim
  attention = sizes.hidden_size * (2 * queries + 2 * keys)
  attention += (queries + 2 * keys) * sizes.qkv_bias
  attention += 2 * sizes.head_dim * sizes.qk_norm
  mlp = 3 * sizes.hidden_size * sizes.intermediate_size
  return attention + mlp + 2 * sizes.hidden_size


def shape_of(sizes: DecoderSizes) -> ModelShape:
  """Of a gated decoder (Llama, Qwen2, Qwen3), all parameters counted.

  The embedding table counts as read and multiplied even where it is untied from
  the head and only a row of it is looked up: the common 2 N convention.
  """
  table = sizes.vocab_size * sizes.hidden_size
  tables = table if sizes.tie_embeddings else 2 * table
  layers = sizes.num_layers * _layer_parameters(sizes)
  parameters = tables + layers + sizes.hidden_size
  return ModelShape(
    parameters=parameters,
    stored=parameters,
    num_layers=sizes.num_layers,
    num_heads=sizes.num_heads,
    num_kv_heads=sizes.num_kv_heads,
    head_dim=sizes.head_dim,
    hidden_size=sizes.hidden_size,
  )


def head_of(sizes: DecoderSizes) -> ModelShape:
  """A one-layer head on the target's features, as EAGLE's and MTP's are.

  A layer of the target, a projection of two hidden vectors to one, and the
  target's own output table, which is read but stored once.
  """
  table = sizes.vocab_size * sizes.hidden_size
  own = _layer_parameters(sizes) + 2 * sizes.hidden_size**2
  return ModelShape(
    parameters=own + table,
    stored=own,
    num_layers=1,
    num_heads=sizes.num_heads,
    num_kv_heads=sizes.num_kv_heads,
    head_dim=sizes.head_dim,
    hidden_size=sizes.hidden_size,
  )
