"""Shipped aids for tests: models of known law, oracles, the battery."""

from specjax.testing.battery import (
  CHECKS,
  CheckResult,
  check_case,
  run_battery,
  run_check,
)
from specjax.testing.cases import (
  SETTINGS,
  Case,
  NotApplicable,
  model_case,
  ngram_case,
  tree_case,
)
from specjax.testing.chisquare import assert_conditional_law, assert_law
from specjax.testing.drivers import RandomTree, Recital, Riders
from specjax.testing.eagles import (
  eagle_case,
  eagle_drafter,
  eagle_tree_case,
  eagle_weights,
)
from specjax.testing.heads import (
  TableHeads,
  blockwise_case,
  heads_net,
  heads_weights,
  medusa_case,
  medusa_tree_case,
)
from specjax.testing.nets import perturb, random_net, tiny_net
from specjax.testing.oracle import (
  Setting,
  conditional_laws,
  expected_acceptance,
  greedy_walk,
  joint_law,
  law_of,
)
from specjax.testing.tables import (
  TableModel,
  blur,
  cyclic_table,
  edge_tables,
  mixed_table,
  random_table,
  tied_table,
)

__all__ = [
  "CHECKS",
  "SETTINGS",
  "Case",
  "CheckResult",
  "NotApplicable",
  "RandomTree",
  "Recital",
  "Riders",
  "Setting",
  "TableHeads",
  "TableModel",
  "eagle_case",
  "eagle_drafter",
  "eagle_tree_case",
  "eagle_weights",
  "assert_conditional_law",
  "assert_law",
  "blockwise_case",
  "blur",
  "check_case",
  "conditional_laws",
  "cyclic_table",
  "edge_tables",
  "expected_acceptance",
  "greedy_walk",
  "joint_law",
  "law_of",
  "mixed_table",
  "heads_net",
  "heads_weights",
  "medusa_case",
  "medusa_tree_case",
  "model_case",
  "ngram_case",
  "perturb",
  "random_net",
  "random_table",
  "run_battery",
  "run_check",
  "tied_table",
  "tiny_net",
  "tree_case",
]
