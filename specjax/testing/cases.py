"""What goes through the battery: a drafter and a rule, on known models."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Int, PyTree

from specjax import acceptance
from specjax.drafters import DraftModel, NGram
from specjax.drafters.draft_tree import DraftTree
from specjax.models.decoder import Transformer
from specjax.passes import Engine
from specjax.testing import nets, runs, tables
from specjax.testing.oracle import Setting
from specjax.topologies import Topology
from specjax.types import Constraint, Drafter, Model, Params, Rule


class NotApplicable(Exception):
  """A check that says nothing about this pair."""


def rough_draft(model: Model, target: PyTree) -> PyTree:
  """Weights of a draft that is often right and often wrong."""
  if isinstance(model, Transformer):
    return nets.perturb(target, 1, 0.15)
  return tables.mixed_table(target, 1)


def same_draft(model: Model, target: PyTree) -> PyTree:
  """The target's own weights."""
  del model
  return target


def no_draft_weights(model: Model, target: PyTree) -> None:
  """For drafters that have none."""
  del model, target


@dataclasses.dataclass(frozen=True)
class Case:
  """A drafter and a rule, and how to give the drafter weights.

  Attributes:
    name: printed.
    make: (target model, depth) -> a drafter that proposes up to that depth.
    rule: the acceptance rule.
    weights: (target model, target weights) -> `Params.draft`, often wrong.
    best_weights: the same, right whenever it can be. None: there is no such.
    draws_like_target: with `best_weights`, its q is the target's law, so that
      rejection refuses nothing at any temperature.
    tokenwise: the rule judges each node before it looks at later ones, so that
      the law holds at an offset given that the round reached it.
    lossless: what is claimed; by default what the rule itself claims.
    depth: of the drafts whose law is tested.
    reaches_all: whether its greedy drafts are kept up to every offset of a
      draft of eight. Untrained nets are never right so often; what they keep
      of a text is then for tests of their own.
  """

  name: str
  make: Callable[[Model, int], Drafter]
  rule: Rule
  weights: Callable[[Model, PyTree], PyTree] = rough_draft
  best_weights: Callable[[Model, PyTree], PyTree] | None = same_draft
  draws_like_target: bool = True
  tokenwise: bool = True
  lossless: bool | None = None
  depth: int = 3
  reaches_all: bool = True

  @property
  def is_lossless(self) -> bool:
    """Whether the law checks apply."""
    if self.lossless is not None:
      return self.lossless
    model = tables.TableModel(4, 2)
    return acceptance.is_lossless(self.make(model, self.depth), self.rule)

  @property
  def is_exact_match(self) -> bool:
    """Whether the output is plain decoding's at any temperature."""
    return isinstance(self.rule, acceptance.ExactMatch)

  def engine(
    self, model: Model, depth: int, constraint: Constraint | None = None
  ) -> Engine:
    """The pair's engine on a target."""
    drafter = self.make(model, depth)
    acceptance.check_pair(drafter, self.rule)
    extra = () if constraint is None else (constraint,)
    return runs.make_engine(model, drafter, self.rule, *extra)

  def params(self, model: Model, target: PyTree, best: bool = False) -> Params:
    """Weights of the target and of the draft.

    Raises:
      NotApplicable: the case has no best weights.
    """
    weights = self.best_weights if best else self.weights
    if weights is None:
      raise NotApplicable("no draft of this kind equals the target")
    return Params(target, weights(model, target))


def _is_tokenwise(rule: Rule) -> bool:
  return not isinstance(rule, acceptance.BlockVerification)


def ngram_case(rule: Rule, **changes) -> Case:
  """Prompt lookup with a rule."""
  options: dict[str, Any] = dict(
    name=f"ngram/{rule.name}",
    make=lambda model, depth: NGram(depth, 1, 3),
    rule=rule,
    weights=no_draft_weights,
    best_weights=no_draft_weights,
    draws_like_target=False,
    tokenwise=_is_tokenwise(rule),
  )
  return Case(**(options | changes))


def model_case(rule: Rule, **changes) -> Case:
  """A draft model of the target's kind with a rule."""
  options: dict[str, Any] = dict(
    name=f"model/{rule.name}",
    make=DraftModel,
    rule=rule,
    tokenwise=_is_tokenwise(rule),
  )
  return Case(**(options | changes))


def bushy(depth: int) -> Topology:
  """A chain of a depth with short branches beside its first three levels."""
  aside = ((1,), (2,), (0, 1), (1, 0), (1, 1), (0, 0, 1))
  spine = [(0,) * d for d in range(1, depth + 1)]
  return Topology((*spine, *(path for path in aside if len(path) <= depth)))


def tree_case(rule: Rule, siblings: str, **changes) -> Case:
  """A draft model that branches with a rule."""
  options: dict[str, Any] = dict(
    name=f"tree-{siblings}/{rule.name}",
    make=lambda model, depth: DraftTree(model, bushy(depth), siblings),
    rule=rule,
    draws_like_target=siblings != "point",
  )
  return Case(**(options | changes))


def depth_of_count(drafter: Drafter) -> Int[np.ndarray, "counts"]:
  """How deep a draft of 0, 1, ... N nodes is: nodes stand by depth."""
  tree = getattr(drafter, "tree", None)
  if isinstance(tree, Topology):
    return np.asarray([0, *tree.depths])
  if drafter.num_nodes == drafter.max_depth:
    return np.arange(drafter.num_nodes + 1)
  raise NotApplicable("the count of its nodes does not say how deep they are")


SETTINGS = (
  Setting(temperature=1.0),
  Setting(temperature=0.7, top_k=3),
  Setting(temperature=1.0, top_p=0.8),
  Setting(temperature=0.9, min_p=0.15),
  Setting(temperature=0.7, top_k=3, top_p=0.9, min_p=0.05),
)
GREEDY = Setting(temperature=0.0)


@functools.cache
def small_world():
  """(model, weights): 4 tokens, order 2, a law that can be enumerated."""
  return tables.TableModel(4, 2), tables.random_table(3, 4, 2, 1.0)


@functools.cache
def wide_world():
  """(model, weights): 11 tokens, order 3, with ties among the largest."""
  return tables.TableModel(11, 3), tables.tied_table(4, 11, 3)


@functools.cache
def net_world():
  """(model, weights) of a tiny transformer."""
  model = nets.tiny_net()
  return model, nets.random_net(model)


@functools.cache
def cyclic_world():
  """(model, weights): the wide model's tokens follow one another in a circle.

  The wide model again, so that one compiled program serves both.
  """
  return tables.TableModel(11, 3), tables.cyclic_table(11, 3)


def random_prompts(
  seed: int, vocab_size: int, lengths: list[int]
) -> list[list[int]]:
  """Random texts of the given lengths."""
  rng = np.random.default_rng(seed)
  return [rng.integers(0, vocab_size, n).tolist() for n in lengths]


def plain(model: Model, target: PyTree, prompts, **options):
  """Plain decoding of the same requests, on the host."""
  options.pop("max_draft", None)
  return runs.run(runs.make_engine(model), Params(target), prompts, **options)
