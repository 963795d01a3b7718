"""K-SEQ of independent siblings: its law, its acceptance, its own text."""

import numpy as np
import pytest
from scipy import optimize

from specjax import sampling
from specjax.acceptance import KSeq, Recursive
from specjax.theory import siblings as closed
from tests import forest_rows, forests
from tests.forest_rows import GROUP, GROUPS, NODES, ROWS, drafts, numbers

PRINTED = (0.7, 0.8254, 0.902, 0.5714, 0.6976, 0.7623, 0.8146)
RULE = KSeq()


def test_three_tokens_have_the_targets_law_whatever_the_order():
  forest_rows.assert_laws("iid", RULE)
  accepted = forest_rows.judged("iid", RULE).accepted
  equal = list(forest_rows.LEVELS).index("equal")
  assert (accepted[GROUP == equal] == 2).mean() > 0.999


def test_as_many_are_accepted_as_the_closed_form_says_and_more_than_in_turn():
  verdict = forest_rows.judged("iid", RULE)
  forest_rows.assert_accepted(verdict, closed.kseq_acceptance, PRINTED)
  in_turn = forest_rows.judged("iid", Recursive())
  last = GROUP == len(GROUPS) - 1  # by 0.05 of the rows
  assert verdict.accepted[last].mean() > in_turn.accepted[last].mean() + 0.02


def _factor(p, q, count):
  """The root in [1, K] of 1 - (1 - b(r))^K = r b(r), and b there."""

  def excess(r):
    each = np.minimum(q, p / r).sum()
    return 1 - (1 - each) ** count - r * each

  root = 1.0
  if excess(1.0) > 1e-12:
    root = optimize.brentq(excess, 1.0, count, xtol=1e-14)
  return root, np.minimum(q, p / root).sum()


def test_every_verdict_is_that_of_the_walk_with_the_same_numbers():
  forest, verdict = drafts("iid"), forest_rows.judged("iid", RULE)
  u = numbers(sampling.Purpose.ACCEPT, np.tile(np.arange(NODES), (ROWS, 1)))
  recover = numbers(sampling.Purpose.RECOVER, np.tile(np.arange(3), (ROWS, 1)))
  for row in range(60 * len(GROUPS)):
    slot = depth = 0
    law = forest.p[row, 0]
    while True:
      below = np.flatnonzero(forest.parents[row] == slot)
      below = below[below < forest.count[row]]
      if not len(below):
        break
      q, tokens = forest.q[row, below[0]], forest.tokens[row, below]
      factor, each = _factor(law, q, len(below))
      kept = below[u[row, below] * factor * q[tokens] < law[tokens]]
      if not len(kept):
        some = 1 - (1 - each) ** len(below)
        taken = np.minimum(q, law / factor) / max(each, 1e-300)
        law = np.maximum(law - taken * some, 0)
        break
      slot, depth = kept[0] + 1, depth + 1
      law = forest.p[row, slot]
    path = forests.path(forest.parents[row], slot)
    assert verdict.slots[row].tolist() == (path + [slot] * 2)[:3]
    assert verdict.accepted[row] == depth
    if law.sum() > 1e-9:  # else rounding alone refused
      aim = recover[row, depth] * law.sum()
      assert verdict.next_token[row] == (law.cumsum() <= aim).sum()


@pytest.mark.parametrize("shape", ["chain", "point masses"])
def test_on_a_chain_it_keeps_what_rejection_keeps(shape):
  """Alone among its siblings a node is divided by 1."""
  rng = np.random.default_rng(2)
  table = rng.dirichlet(np.ones(forest_rows.V), (2, forest_rows.V))
  forest = forests.draw(
    rng,
    np.tile([0, 1, 1, 1, 1, 1], (ROWS, 1)),
    np.full((ROWS,), 2),
    np.tile(table[0], (ROWS, 1, 1)),
    np.tile(table[1], (ROWS, 1, 1)),
    "iid" if shape == "chain" else "point",
  )
  ours = forest_rows.judge(forest, RULE)
  theirs = forest_rows.judge(forest, Recursive())
  assert (ours.slots == theirs.slots).all()
  assert (ours.next_token == theirs.next_token).mean() > 0.9999
