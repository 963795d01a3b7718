"""EAGLE's drafts for the battery: untrained, on tiny nets and on tables."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from specjax.drafters.eagle import Eagle, OverFeatures
from specjax.drafters.eagle_tree import EagleTree
from specjax.models.config import DecoderConfig
from specjax.models.decoder import Transformer
from specjax.models.eagle import EagleHead, EagleParams
from specjax.models.eagle_config import EagleConfig, config_for
from specjax.testing.cases import Case
from specjax.types import Feedback, Model, Params, Rule


class _OnTable(OverFeatures):
  """Reads a table model's context as rows of its own embeddings."""

  def observe(self, params: Params, state, seen: Feedback):
    rows = params.draft.embedding
    taps = {
      name: jnp.take(jnp.roll(rows, i, 1), x[..., 0].astype(int), axis=0)
      for i, (name, x) in enumerate(seen.taps.items())
    }
    return super().observe(params, state, dataclasses.replace(seen, taps=taps))


@dataclasses.dataclass(frozen=True)
class _TableEagle(_OnTable, Eagle):
  pass


@dataclasses.dataclass(frozen=True)
class _TableEagleTree(_OnTable, EagleTree):
  pass


def _taps(version: int) -> tuple[str, ...]:
  return ("hidden",) if version == 1 else ("layer_0", "layer_1", "hidden")


def _config(model: Model, version: int, reduced: bool) -> EagleConfig:
  """For a tiny net, or a tinier one for a table."""
  size = model.vocab_size - 2 if reduced else None
  options: dict[str, Any] = dict(version=version, draft_vocab_size=size)
  if isinstance(model, Transformer):
    return config_for(model.config, taps=_taps(version), **options)
  layer = DecoderConfig(model.vocab_size, 8, 8, 1, 2, 1, 4, 1 << 20)
  return config_for(layer, taps=_taps(version)[:2], **options)


def eagle_drafter(
  model: Model, depth: int, version: int = 3, reduced: bool = True
) -> Eagle:
  """A chain over a target of the battery.

  Args:
    model: the target: a tiny net or a table.
    depth: the longest draft.
    version: 1 or 3.
    reduced: whether it says all but two of the target's tokens.
  """
  kind = Eagle if isinstance(model, Transformer) else _TableEagle
  return kind(_config(model, version, reduced), depth)


def eagle_tree_drafter(model: Model, depth: int) -> EagleTree:
  """EAGLE-2's tree of up to twelve nodes, over EAGLE-3's features."""
  kind = EagleTree if isinstance(model, Transformer) else _TableEagleTree
  size, branching = min(12, 4 + 16 * (depth - 1)), 4
  return kind(_config(model, 3, True), size, depth, branching)


@functools.cache
def _fresh(config: EagleConfig) -> PyTree:
  """Random weights, for all that uses a configuration."""
  return EagleHead(config).init(jax.random.split(jax.random.key(5), 3)[0])


def eagle_weights(
  model: Model, target: PyTree, version: int = 3, reduced: bool = True
) -> EagleParams:
  """Random weights; every token but two can be said in a reduced vocabulary."""
  config = _config(model, version, reduced)
  _, other, third = jax.random.split(jax.random.key(5), 3)
  net = _fresh(config)
  if version == 3:
    net = net | {"head": {"kernel": 2.0 * net["head"]["kernel"]}}
  if isinstance(model, Transformer):
    embedding = target["embed"]["embedding"]
  else:
    shape = (model.vocab_size, config.layer.hidden_size)
    embedding = jax.random.normal(other, shape)
  ids = jnp.arange(1, model.vocab_size - 1) if reduced else None
  head = None
  if version == 1:
    rows = config.draft_vocab_size or model.vocab_size
    head = jax.random.normal(third, (rows, config.layer.hidden_size))
  return EagleParams(net, embedding, head, ids)


def eagle_case(
  rule: Rule, version: int = 3, reduced: bool = True, **changes
) -> Case:
  """EAGLE's chain with a rule."""
  options: dict[str, Any] = dict(
    name=f"eagle{version}/{rule.name}",
    make=lambda model, depth: eagle_drafter(model, depth, version, reduced),
    rule=rule,
    weights=lambda model, target: eagle_weights(
      model, target, version, reduced
    ),
    best_weights=None,
    draws_like_target=False,
    reaches_all=False,
  )
  return Case(**(options | changes))


def eagle_tree_case(rule: Rule, **changes) -> Case:
  """EAGLE-2's trees with a rule."""
  options: dict[str, Any] = dict(
    name=f"eagle_tree/{rule.name}", make=eagle_tree_drafter
  )
  return eagle_case(rule, **(options | changes))
