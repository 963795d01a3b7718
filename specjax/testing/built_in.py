"""The battery's case of every drafter that goes by a name."""

import functools
from collections.abc import Callable

from specjax.testing.cases import Case, model_case, ngram_case, tree_case
from specjax.testing.eagles import eagle_case, eagle_tree_case
from specjax.testing.heads import blockwise_case, medusa_case, medusa_tree_case
from specjax.types import Rule

BUILT_IN: dict[str, Callable[[Rule], Case]] = {
  "ngram": ngram_case,
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
