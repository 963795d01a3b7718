"""A draft model that branches, with siblings of every kind."""

import pytest

from specjax import acceptance
from specjax.drafters.draft_tree import DraftTree
from specjax.testing import NotApplicable, check_case, tree_case
from specjax.testing.cases import small_world

DISTINCT = tree_case(acceptance.Recursive(), "without_replacement")
LAW = ("joint", "by_offset", "coverage")
RUNS = [
  *(
    (DISTINCT, check)
    for check in (
      "greedy_nets",
      "fewest_rounds",
      *LAW,
      "streams",
      "ragged_nets",
      "limits",
      "seeds",
      "repeats",
    )
  ),
  (tree_case(acceptance.Recursive(), "iid"), "joint"),
  (tree_case(acceptance.Recursive(), "point"), "joint"),
  (tree_case(acceptance.Recursive(), "point"), "ragged_nets"),
]


def _marked():
  for case, check in RUNS:
    marks = [pytest.mark.runs_long] if check in LAW else []
    yield pytest.param(case, check, marks=marks, id=f"{case.name}-{check}")


@pytest.mark.parametrize("case, check", [*_marked()])
def test_battery(case, check):
  try:
    check_case(case, check)
  except NotApplicable as reason:
    pytest.fail(str(reason))


def test_a_rule_for_chains_refuses_branches():
  with pytest.raises(ValueError, match="'rejection' judges chain siblings"):
    DISTINCT.__class__(
      **{**vars(DISTINCT), "rule": acceptance.Rejection()}
    ).engine(small_world()[0], 2)


def test_an_unknown_kind_of_siblings_is_refused():
  with pytest.raises(ValueError, match="siblings must be one of iid"):
    DraftTree(small_world()[0], siblings="twins")
