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
  @property
  def head_size(self) -> int | None: ...


@dataclasses.dataclass(frozen=True)
class ModelShape:
  """A decoder to a roofline.

  Attributes:
    parameters: read once a pass, and 2 operations each for every token.
    stored: parameters that memory holds for it: less than `parameters` for a
      draft that shares some of the target's, more where a table of its own is
      only looked up.
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


@dataclasses.dataclass(frozen=True)
class OnceShape:
  """What runs once a draft, for all of its tokens, to a roofline.

  A draft of G tokens reads once + G * each + shared parameters in one pass, and
  has 2 operations a row for each of once + G * (each + shared).

  Attributes:
    once: parameters of what the tokens have in common: EAGLE-3's fusion of
      features, the inner layer of blockwise heads.
    each: of what each token has of its own: a head.
    shared: read once and multiplied for each token: the vocabulary's rows that
      heads share.
  """

  once: int = 0
  each: int = 0
  shared: int = 0


def layer_parameters(sizes: DecoderSizes) -> int:
  """Of one layer with its two norms."""
  queries = sizes.num_heads * sizes.head_dim
  keys = sizes.num_kv_heads * sizes.head_dim
  attention = sizes.hidden_size * (2 * queries + 2 * keys)
  attention += (queries + 2 * keys) * sizes.qkv_bias
  attention += 2 * sizes.head_dim * sizes.qk_norm
  mlp = 3 * sizes.hidden_size * sizes.intermediate_size
  return attention + mlp + 2 * sizes.hidden_size


def shape_of(sizes: DecoderSizes) -> ModelShape:
  """Of a gated decoder (Llama, Qwen2, Qwen3).

  Of a whole model all parameters count. The embedding table is read and
  multiplied even where it is untied from the head and only a row of it is
  looked up: the common 2 N convention. Of a model with a reduced head
  (`head_size`) a pass reads and multiplies the head's own rows; its table is
  looked up, and only stored.
  """
  table = sizes.vocab_size * sizes.hidden_size
  rest = sizes.num_layers * layer_parameters(sizes) + sizes.hidden_size
  if sizes.head_size is not None:
    parameters = sizes.head_size * sizes.hidden_size + rest
    stored = parameters + table
  else:
    parameters = (table if sizes.tie_embeddings else 2 * table) + rest
    stored = parameters
  return ModelShape(
    parameters=parameters,
    stored=stored,
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
  own = layer_parameters(sizes) + 2 * sizes.hidden_size**2
  return ModelShape(
    parameters=own + table,
    stored=own,
    num_layers=1,
    num_heads=sizes.num_heads,
    num_kv_heads=sizes.num_kv_heads,
    head_dim=sizes.head_dim,
    hidden_size=sizes.hidden_size,
  )
