"""Papers whose numbers are enumerated: blocks, candidates, trees."""

import itertools

import numpy as np
import pytest

from specjax.evaluation.reproduction import (
  block_verification,
  multi_draft,
  sequoia,
)
from specjax.theory import siblings, toy_language
from tests.evaluation.reproduction.changes import (
  HERE,
  QUICK,
  counts,
  scaled,
)

_larger = scaled(1.3)


def _worse_draft(loop):
  return lambda p, q, *rest: loop(
    p, q**2 / (q**2).sum(-1, keepdims=True), *rest
  )


@pytest.mark.runs_long  # the loop: thousands of rows
def test_blocks(assert_every_cell_moves):
  found = assert_every_cell_moves(
    block_verification.cells,
    [
      ("specjax.theory.block:token_rule_tokens", _larger),
      ("specjax.theory.block:block_rule_tokens", _larger),
      (
        f"{HERE}.block_verification:keep_chances",
        lambda f: lambda *args: f(*args)[::-1],
      ),
      (f"{HERE}.block_verification:Loop", _worse_draft),
    ],
  )
  assert counts(found) == {"agrees": 8, "no published cell": 12}


def test_block_chances_by_hand():
  """Two tokens, draft (0, 0) of the paper's toy: P = 1/2, then 1/4."""
  p, q = block_verification.P, block_verification.Q
  ours = block_verification.keep_chances(p, q, 0, (0, 0))
  # Left after one token: max(1/2 * 2/3 - 1/3, 0) = 0, so h_1 = 0, h_2 = 1/4.
  np.testing.assert_allclose(ours, [0.75, 0.0, 0.25])
  rng = np.random.default_rng(3)
  p, q = rng.dirichlet(np.ones(3), 3), rng.dirichlet(np.ones(3), 3)
  for draft in itertools.product(range(3), repeat=3):
    ours = block_verification.keep_chances(p, q, 1, draft)
    assert ours.sum() == pytest.approx(1.0)
  _, law = block_verification.enumerate_block(p, q, 1, 3)
  np.testing.assert_allclose(
    law.reshape(-1), toy_language.joint_law(p, 1, 4), atol=1e-14
  )


# Laws, K: naive, in turn, in turn and distinct, best, each computed apart.
TABLE = {
  ("three tokens", 2): (0.577, 0.790, 0.925, 0.910),
  ("six tokens", 3): (0.3216, 0.7259, 0.7845, 0.8465),
  ("four-token language", 2): (0.4267, 0.8193, 0.8828, 0.9192),
}


@pytest.mark.parametrize("pair, count", TABLE)
def test_candidates_by_enumeration(pair, count):
  p, q, _ = multi_draft._pairs()[pair]
  ours = (
    multi_draft.play_sets(p, q, count),
    multi_draft.play_in_turn(p, q, count, False),
    multi_draft.play_in_turn(p, q, count, True),
    multi_draft.play_cuts(p, q, count),
  )
  np.testing.assert_allclose(ours, TABLE[pair, count], atol=6e-5)
  closed = (
    siblings.naive_acceptance(p, q, count),
    siblings.recursive_acceptance(p, q, count),
    siblings.distinct_acceptance(p, q, count),
    siblings.best_acceptance(p, q, count),
  )
  np.testing.assert_allclose(closed, ours, atol=1e-5)


def test_candidates(assert_every_cell_moves, monkeypatch):
  """SpecTr's longer drafts gain more than one alpha says: these two differ."""
  small = {"three tokens": multi_draft._pairs()["three tokens"]}
  monkeypatch.setattr(multi_draft, "_pairs", lambda: small)
  names = [name for name, _ in multi_draft.RULES.values()]
  found = assert_every_cell_moves(
    multi_draft.cells,
    [(f"specjax.theory.siblings:{name}", _larger) for name in names]
    + [
      ("specjax.theory.siblings:independent_law", _larger),
      ("specjax.theory.siblings:kseq_acceptance", scaled(0.5)),
      (f"{HERE}.multi_draft:_residual", lambda f: lambda p, q: p),
      ("specjax.theory.speedup:tokens_per_pass", _larger),
    ],
  )
  assert counts(found) == {"agrees": 9, "differs": 2, "no published cell": 18}


def test_trees(assert_every_cell_moves):
  found = assert_every_cell_moves(
    sequoia.cells,
    [
      ("specjax.theory.trees:most_tokens", _larger),
      ("specjax.theory.speedup:tokens_per_pass", _larger),
      ("specjax.theory.speedup:most_tokens_per_pass", scaled(2)),
    ],
  )
  assert counts(found) == {"agrees": 8, "no published cell": 12}


def test_all_trees_of_a_few_slots():
  """Of 3 slots: a chain, .6 + .36, beats two children, .6 + .15."""
  assert sequoia.enumerate_best(2) == pytest.approx(1.6)
  assert sequoia.enumerate_best(3) == pytest.approx(1.96)
  # Best-first: nodes of the largest path products, .6 .36 .216 .15.
  assert sequoia.enumerate_best(5) == pytest.approx(
    1 + 0.6 + 0.36 + 0.216 + 0.15
  )


@pytest.mark.parametrize("module", [block_verification, multi_draft, sequoia])
def test_figures(module):
  (figure,) = module.figures(QUICK)
  for x, y in figure.curves.values():
    assert len(x) == len(y) > 0 and np.isfinite(y).all()
