"""The battery's case of every drafter that goes by a name."""

import functools
from collections.abc import Callable
from typing import Any

from specjax.drafters import Jacobi, Lookahead, NGramTree
from specjax.testing.cases import Case, model_case, ngram_case, tree_case
from specjax.testing.eagles import eagle_case, eagle_tree_case
from specjax.testing.heads import blockwise_case, medusa_case, medusa_tree_case
from specjax.types import Rule


def ngram_tree_case(rule: Rule, **changes) -> Case:
  """Prompt lookup's tree with a rule."""
  options: dict[str, Any] = dict(
    name=f"ngram_tree/{rule.name}",
    make=lambda model, depth: NGramTree(2 * depth, depth, 1, 3, 4),
  )
  return ngram_case(rule, **(options | changes))


def jacobi_case(rule: Rule, **changes) -> Case:
  """The target's own guesses with a rule."""
  options: dict[str, Any] = dict(
    name=f"jacobi/{rule.name}",
    make=lambda model, depth: Jacobi(depth),
    best_weights=None,
  )
  return ngram_case(rule, **(options | changes))


def lookahead_case(rule: Rule, **changes) -> Case:
  """A small window and pool with a rule."""
  options: dict[str, Any] = dict(
    name=f"lookahead/{rule.name}",
    make=lambda model, depth: Lookahead(3, depth + 1, 2, True, 64),
    best_weights=None,
  )
  return ngram_case(rule, **(options | changes))


BUILT_IN: dict[str, Callable[[Rule], Case]] = {
  "ngram": ngram_case,
  "ngram_tree": ngram_tree_case,
  "jacobi": jacobi_case,
  "lookahead": lookahead_case,
  "model": model_case,
  "model_tree": functools.partial(tree_case, siblings="without_replacement"),
  "model_tree_iid": functools.partial(tree_case, siblings="iid"),
  "model_tree_point": functools.partial(tree_case, siblings="point"),
  "medusa": medusa_case,
  "medusa_tree": medusa_tree_case,
  "blockwise": blockwise_case,
  "eagle": functools.partial(eagle_case, version=1),
  "eagle3": eagle_case,
  "eagle_tree": eagle_tree_case,
}
