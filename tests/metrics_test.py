"""Figures from a history written out by hand."""

import numpy as np
import pytest

from specjax import metrics

#  drafted accepted emitted width
HISTORY = np.asarray(
  [[3, 3, 4, 4], [3, 1, 2, 4], [0, 0, 1, 1], [3, 0, 1, 4], [2, 2, 2, 4]]
)


def test_figures_of_a_row():
  stats = metrics.row_stats(np.pad(HISTORY, ((0, 9), (0, 0))), 5)
  assert (stats.rounds, stats.drafted, stats.accepted) == (5, 11, 6)
  assert stats.emitted == 10
  assert stats.accept_lengths == (4, 2, 1, 1, 2)
  assert stats.mean_acceptance_length == 2.0
  assert stats.draft_acceptance_rate == pytest.approx(6 / 11)
  # Of the four rounds that drafted.
  assert stats.acceptance_per_position == (3 / 4, 2 / 4, 1 / 4)
  assert stats.widths == {1: 1, 4: 4}


def test_nothing_drafted_has_no_rate():
  stats = metrics.row_stats(HISTORY[2:3], 1)
  assert stats.draft_acceptance_rate is None
  assert stats.acceptance_per_position == ()
  assert metrics.row_stats(HISTORY, 0).mean_acceptance_length == 0.0


def test_pooled_figures_are_those_of_the_rounds_together():
  halves = [
    metrics.row_stats(HISTORY[:2], 2),
    metrics.row_stats(HISTORY[2:], 3),
  ]
  assert metrics.pool(halves) == metrics.row_stats(HISTORY, 5)


def test_lane_use():
  assert metrics.lane_use(np.asarray([4, 2])) == 0.75
  assert metrics.lane_use(np.asarray([0, 0])) == 1.0


def test_a_round_judges_what_it_reached():
  # Position 1 was judged by the rounds that kept 3, 1 and 2; position 2 by the
  # first alone, for the last one drafted only two.
  assert metrics.judged(HISTORY.tolist(), 3) == ([3 / 4, 2 / 3, 1.0], [4, 3, 1])
  assert metrics.judged(HISTORY[2:3].tolist(), 2) == ([None, None], [0, 0])


def test_a_round_that_a_stop_cut_judges_nothing_further():
  cut = [(3, 1, 1, 4), (3, 1, 2, 4), (3, 2, 3, 4)]
  assert metrics.judged(cut, 3) == ([1, 1 / 2, 0], [3, 2, 1])
