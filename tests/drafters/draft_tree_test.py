"""A draft model that branches, with siblings of every kind."""

import jax
import numpy as np
import pytest

from specjax import acceptance
from specjax.drafters.draft_tree import DraftTree
from specjax.testing import NotApplicable, Setting, check_case, runs, tree_case
from specjax.testing.cases import (
  bushy,
  net_world,
  random_prompts,
  rough_draft,
  small_world,
)
from specjax.types import ACCEPTED, Params

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


def test_the_draft_s_cache_is_that_of_the_text():
  """Whatever branch was kept, and where a row drafted little or nothing."""
  model, target = net_world()
  params = Params(target, rough_draft(model, target))
  drafter = DraftTree(model, bushy(4))
  engine = runs.make_engine(model, drafter, acceptance.Recursive())
  prompts = random_prompts(9, model.vocab_size, [3 + i for i in range(16)])
  budgets = [4, 3, 2, 1] * 4
  options = dict(settings=Setting(temperature=0.7), size=96)
  rows = runs.start(
    engine, params, prompts, new=40, max_draft=budgets, **options
  )
  rows = runs.advance(engine, params, rows)
  accepted = np.asarray(rows.history)[..., ACCEPTED]
  assert set(np.unique(accepted)) >= {0, 1, 2, 3}
  cache, length = rows.draft.cache, np.asarray(rows.length)
  # What was kept last and not fed is missing, and the last token always is.
  assert (np.asarray(cache.length) >= length - 2).all()
  assert (np.asarray(cache.length) < length).all()
  text = [np.asarray(rows.tokens)[i, :n].tolist() for i, n in enumerate(length)]
  whole = runs.start(engine, params, text, new=1, **options)
  seen = np.arange(96)[None] < np.asarray(cache.length)[:, None]
  assert (
    np.asarray(whole.draft.cache.length) >= np.asarray(cache.length)
  ).all()
  for ours, theirs in zip(
    jax.tree.leaves(cache.layers),
    jax.tree.leaves(whole.draft.cache.layers),
    strict=True,
  ):
    at = seen[:, None, :, None]
    np.testing.assert_allclose(ours * at, theirs * at, rtol=1e-4, atol=1e-4)
