"""Where to end a draft: against the closed forms, and by hand."""

import numpy as np
import pytest

from specjax.evaluation.costs import lengths
from specjax.evaluation.costs.costs import Costs
from specjax.theory import positions

RATES = (0.8, 0.6, 0.3, 0.1)


def make_costs(passes, step):
  """Costs at one context: passes of 1, 2, ... slots, and a draft step."""
  return Costs(
    passes={width: {10: s} for width, s in enumerate(passes, 1)},
    drafts={False: {n: {10: n * step} for n in range(len(passes))}},
  )


def test_equal_passes_give_theorem_3_8():
  costs = make_costs([2.0] * 5, 0.5)
  found = lengths.by_position(RATES, 1.0, costs, 10)
  conditional = positions.conditional(np.asarray(RATES))
  expected = positions.speedup_by_length(conditional, 0.25)[1:]
  np.testing.assert_allclose([p.speedup for p in found], expected, rtol=1e-5)
  assert lengths.cut(found) == 1 + int(np.argmax(expected))
  # A position pays exactly where it makes the speedup larger.
  factors = [1.0, *(p.speedup for p in found)]
  assert [p.pays for p in found] == (np.diff(factors) > 0).tolist()
  alpha, c = 0.7, costs.c(10)
  expected = (1 - alpha**5) / ((1 - alpha) * (4 * c + 1))
  assert lengths.closed_form(alpha, 4, c) == pytest.approx(expected, rel=1e-5)


def test_passes_that_grow_in_one_step_by_hand():
  # One slot 10, more of them 18; drafting is free; half the rounds draft.
  costs = make_costs([10.0, 18.0, 18.0, 18.0, 18.0], 0.0)
  found = lengths.by_position(RATES, 0.5, costs, 10)
  assert [p.gain_tokens for p in found] == [0.4, 0.3, 0.15, 0.05]
  assert [p.cost_passes for p in found] == pytest.approx([0.4, 0, 0, 0])
  speedups = np.asarray([1.4, 1.7, 1.85, 1.9]) * 10 / 14
  assert [p.speedup for p in found] == pytest.approx(speedups.tolist())
  assert [p.pays for p in found[1:]] == [True] * 3
  assert lengths.cut(found) == 4


def test_a_draft_that_costs_more_than_it_gains_is_not_drafted():
  found = lengths.by_position(RATES, 1.0, make_costs([1.0] * 5, 1.0), 10)
  assert lengths.cut(found) == 0 and not any(p.pays for p in found)
  assert lengths.cut([]) == 0
