"""Drafts by heads for the battery: untrained nets, and heads of a known law."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from specjax import sampling
from specjax.drafters.heads import Heads, HeadTree
from specjax.models.decoder import Transformer
from specjax.models.heads import Blockwise, HeadsNet, Medusa, vocabulary_rows
from specjax.models.table import TableModel
from specjax.testing import tables
from specjax.testing.cases import Case, bushy
from specjax.types import Model, Rule

_NUM_HEADS = 8


@dataclasses.dataclass(frozen=True)
class TableHeads:
  """Heads on the context that a `TableModel` shows as its feature.

  Head k has the table's law after the likeliest k tokens, which is a function
  of the feature alone, as a head's law must be. Weights are a table, right or
  wrong. Where the text is greedy and the table the target's, heads are right.
  """

  vocab_size: int
  order: int
  num_heads: int = _NUM_HEADS

  @property
  def hidden_size(self) -> int:
    return self.order

  def __call__(
    self,
    params: PyTree,
    hidden: Float[Array, "*b d"],
    num_heads: int | None = None,
  ) -> Float[Array, "*b K Vq"]:
    number = self.num_heads if num_heads is None else num_heads
    columns = jnp.round(hidden).astype(jnp.int32)
    context = [columns[..., i] for i in range(self.order)]
    likeliest, logits = self._next(params, context)
    each = []
    for _ in range(number):
      context = [*context[1:], likeliest]
      likeliest, logits = self._next(params, context)
      each.append(logits)
    return jnp.stack(each, -2)

  def _next(
    self, params: PyTree, context: list[Int[Array, "*b"]]
  ) -> tuple[Int[Array, "*b"], Float[Array, "*b V"]]:
    logits = params["table"][tuple(context)]
    sound = jnp.where(jnp.isnan(logits), -jnp.inf, logits)
    return sampling.lowest_argmax(sound), logits


def heads_net(model: Model, kind: type = Medusa) -> HeadsNet:
  """Eight heads for a target of the battery."""
  if isinstance(model, TableModel):
    return TableHeads(model.vocab_size, model.order)
  if not isinstance(model, Transformer):
    raise ValueError(f"no heads for {type(model).__name__}")
  sizes = (model.config.hidden_size, model.vocab_size)
  if kind is Blockwise:
    return Blockwise(*sizes, inner_size=8, num_heads=_NUM_HEADS)
  return Medusa(*sizes, num_heads=_NUM_HEADS)


def heads_weights(
  model: Model, target: PyTree, kind: type = Medusa
) -> dict[str, PyTree]:
  """`Params.draft` of heads that are often right and often wrong."""
  net = heads_net(model, kind)
  if isinstance(net, TableHeads):
    return tables.mixed_table(target, 1)
  assert isinstance(net, (Medusa, Blockwise))
  key, noise = jax.random.split(jax.random.key(1))
  params = net.init(key, vocabulary_rows(target))
  leaves, form = jax.tree.flatten(params)
  keys = jax.random.split(noise, len(leaves))
  params = jax.tree.unflatten(
    form,
    [
      x + 0.1 * jax.random.normal(key, x.shape, x.dtype)
      for x, key in zip(leaves, keys, strict=True)
    ],
  )
  if not net.own_heads:
    params["head"] = {"kernel": vocabulary_rows(target)}
  return params


def medusa_case(rule: Rule, **changes) -> Case:
  """Medusa's heads with a rule, untrained; heads of known law on tables."""
  return _case(rule, Medusa, changes)


def blockwise_case(rule: Rule, **changes) -> Case:
  """Stern's heads with a rule, untrained; heads of known law on tables."""
  return _case(rule, Blockwise, changes)


def medusa_tree_case(rule: Rule, **changes) -> Case:
  """A tree of the heads' likeliest tokens with a rule."""
  options: dict[str, Any] = dict(
    name=f"medusa_tree/{rule.name}",
    make=lambda model, depth: HeadTree(heads_net(model), bushy(depth)),
  )
  return medusa_case(rule, **(options | changes))


def _case(rule: Rule, kind: type, changes: dict[str, Any]) -> Case:
  options: dict[str, Any] = dict(
    name=f"{kind.__name__.lower()}/{rule.name}",
    make=lambda model, depth: Heads(heads_net(model, kind), depth),
    rule=rule,
    weights=lambda model, target: heads_weights(model, target, kind),
    draws_like_target=False,
  )
  return Case(**(options | changes))
