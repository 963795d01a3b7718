"""What trained drafters cost on a roofline, from the sizes of their nets.

A pass reads and multiplies the weights of its layers, its norms and the rows of
its head. An embedding table of which it looks a row up is only stored, and not
even that where it is the target's. A reduced head's rows that come from the
target are a copy: they are stored.
"""

import dataclasses

from specjax.theory.rounds import Drafter
from specjax.theory.shapes import (
  DecoderSizes,
  ModelShape,
  OnceShape,
  layer_parameters,
  shape_of,
)


def draft_model(
  sizes: DecoderSizes,
  *,
  shared_embedding: bool = False,
  shared_head: bool = False,
  shared_layers: int = 0,
) -> Drafter:
  """A decoder with a cache of its own; it runs once a token.

  Args:
    sizes: of the draft.
    shared_embedding: whether the table is the target's.
    shared_head: whether a head of its own has the target's rows.
    shared_layers: layers that are the target's.
  """
  whole = sizes.head_size is None
  table = sizes.vocab_size * sizes.hidden_size
  rows = table if whole else (sizes.head_size or 0) * sizes.hidden_size
  layer = layer_parameters(sizes)
  rest = sizes.num_layers * layer + sizes.hidden_size
  stored = rest - shared_layers * layer
  if not shared_embedding:
    stored += table
  own_head = not (whole and sizes.tie_embeddings)
  if own_head and not (shared_head and whole):
    stored += rows
  return _once_a_token(sizes, sizes.num_layers, rows + rest, stored)


def first_layers(target: DecoderSizes, number: int) -> Drafter:
  """The target's first layers with its norm and head, its weights shared.

  Raises:
    ValueError: more than it has, or none.
  """
  if not 1 <= number <= target.num_layers:
    raise ValueError(
      f"a draft of {number} layers cannot be cut from {target.num_layers}"
    )
  whole = shape_of(target)
  left = (target.num_layers - number) * layer_parameters(target)
  model = dataclasses.replace(
    whole, parameters=whole.parameters - left, stored=0, num_layers=number
  )
  return Drafter(model, stored=0, cached=True)


def eagle(
  layer: DecoderSizes,
  *,
  version: int = 3,
  num_features: int = 3,
  head_size: int | None = None,
  fc_norm: bool = False,
  shared_head: bool = False,
) -> Drafter:
  """EAGLE-1 or 3: a layer of the target's width, once a token.

  EAGLE-3 fuses its features once a draft, counted over one token of each row,
  and has a norm and a head of its own. EAGLE-1 feeds its projection at every
  token, and reads the target's rows.

  Args:
    layer: sizes of the layer; width and vocabulary are the target's.
    num_features: that version 3 fuses.
    head_size: rows of a reduced head; None is the whole vocabulary.
    fc_norm: whether each feature is normed first (EAGLE-3.1).
    shared_head: whether the target's rows read version 3 too.
  """
  d = layer.hidden_size
  rows = (layer.vocab_size if head_size is None else head_size) * d
  own = layer_parameters(layer)
  if version == 1:
    own += 2 * d * d + d - d  # fc and its bias; no norm at the layer's input
    stored = own if head_size is None else own + rows
    return _once_a_token(layer, 1, own + rows, stored)
  # Queries, keys and values of two vectors side by side, each with a norm.
  heads = layer.num_heads + 2 * layer.num_kv_heads
  own += d * heads * layer.head_dim + d
  own += d + rows  # the last norm and the head
  fusion = num_features * (d * d + d * fc_norm)
  stored = own + fusion
  if shared_head and head_size is None:
    stored -= rows  # a choice of rows is a copy
  made = _once_a_token(layer, 1, own, stored)
  return dataclasses.replace(made, once=OnceShape(once=fusion))


def medusa(
  hidden_size: int,
  head_size: int,
  num_heads: int,
  *,
  num_layers: int = 1,
  own_heads: bool = True,
  shared_head: bool = False,
) -> Drafter:
  """Medusa's heads, all in one pass a draft; those beyond it do not run.

  Args:
    head_size: rows of the vocabulary that a head says.
    num_layers: residual layers of a head.
    own_heads: whether each head has rows of its own.
    shared_head: whether rows that heads share are the target's own array.
  """
  d = hidden_size
  each = num_layers * (d * d + d) + (head_size * d if own_heads else 0)
  shared = 0 if own_heads else head_size * d
  return _once_a_draft(OnceShape(0, each, shared), num_heads, shared_head)


def blockwise(
  hidden_size: int,
  head_size: int,
  num_heads: int,
  *,
  inner_size: int,
  shared_head: bool = False,
) -> Drafter:
  """Blockwise heads: one inner layer, whole at any length; see `medusa`."""
  d, units = hidden_size, num_heads * inner_size
  shape = OnceShape(
    once=units * d + units, each=d * units + d, shared=head_size * d
  )
  return _once_a_draft(shape, num_heads, shared_head)


def _once_a_token(
  sizes: DecoderSizes, num_layers: int, parameters: int, stored: int
) -> Drafter:
  model = ModelShape(
    parameters=parameters,
    stored=stored,
    num_layers=num_layers,
    num_heads=sizes.num_heads,
    num_kv_heads=sizes.num_kv_heads,
    head_dim=sizes.head_dim,
    hidden_size=sizes.hidden_size,
  )
  return Drafter(model, stored, cached=True)


def _once_a_draft(
  shape: OnceShape, num_heads: int, shared_head: bool
) -> Drafter:
  stored = shape.once + num_heads * shape.each
  return Drafter(
    stored=stored if shared_head else stored + shape.shared,
    once=shape,
    longest=num_heads,
  )
