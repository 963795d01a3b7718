"""A simulated batch: by hand, and against the closed form.

What the published serving page prints of such batches is in
tests/evaluation/reproduction/serving_page_test.py.
"""

import numpy as np
import pytest

from specjax.evaluation.reproduction import serving_page
from specjax.theory import devices, roofline, rounds
from specjax.theory.batch_simulation import Load, Simulator, plain_rounds
from specjax.theory.roofline import Setup
from specjax.theory.shapes import ModelShape

TINY = ModelShape(1000, 1000, 2, 4, 2, 8, 32)
SMALL = ModelShape(100, 100, 1, 2, 1, 8, 16)
UNIT = devices.Device(100.0, 10.0, 5000.0, 4.0, "by hand")


def test_certain_acceptance_by_hand():
  """Two lanes, three requests of six tokens, three a round."""
  simulator = Simulator(TINY, rounds.separate(SMALL), UNIT, Setup(), (1.0, 1.0))
  ours = simulator.run(Load(2, 3, 10, 6))
  assert (ours.tokens, ours.drafts) == (18, 6)
  assert (ours.drafted, ours.accepted) == (12, 12)
  assert ours.mean_acceptance_length == 3.0
  active = np.asarray([2.0, 2.0, 1.0, 1.0])
  context = np.asarray([10.0, 13.0, 10.0, 13.0])
  verify = np.maximum(
    (2000 + active * context * 128) / 10,
    active * 3 * (2000 + context * 256) / 100,
  )
  draft = np.maximum(
    (200 + active * context * 32) / 10, active * (200 + context * 64) / 100
  )
  assert ours.draft_seconds == pytest.approx(2 * draft.sum(), rel=1e-5)
  assert ours.verify_seconds == pytest.approx(verify.sum(), rel=1e-5)
  assert ours.seconds == pytest.approx(2 * draft.sum() + verify.sum(), rel=1e-5)
  rows, lengths = plain_rounds(Load(2, 3, 10, 6))
  np.testing.assert_array_equal(rows, [2] * 6 + [1] * 6)
  np.testing.assert_array_equal(lengths, [*range(10, 16)] * 2)
  plain = (2000 + rows * lengths * 128) / 10
  assert ours.plain_seconds == pytest.approx(plain.sum(), rel=1e-5)
  assert ours.speedup == pytest.approx(plain.sum() / ours.seconds, rel=1e-5)


def test_a_row_alone_is_the_same_with_and_without_a_queue():
  simulator = Simulator(TINY, rounds.lookup(), UNIT, Setup(), (0.7, 0.4, 0.9))
  load = Load(1, 1, 10, 256)
  ours, others = (
    play(load, np.random.default_rng(3))
    for play in (simulator._drained, simulator._refilled)
  )
  for mine, other in zip(ours, others, strict=True):
    np.testing.assert_allclose(mine, other)
  assert len(ours[0]) > 2 * 32  # drawn in several pieces


def test_no_acceptance_is_plain_decoding_with_wider_passes():
  simulator = Simulator(TINY, rounds.lookup(), UNIT, Setup(), (0.0,))
  ours = simulator.run(Load(2, 2, 10, 5))
  assert ours.accepted == 0 and ours.drafts == 10
  assert ours.speedup == pytest.approx(1.0)
  assert ours.operations_factor == pytest.approx(2.0)


def test_a_full_queue_approaches_the_closed_form():
  """With lanes always full, raggedness costs nothing."""
  simulator = serving_page.simulator(serving_page.Case(gamma=3))
  ours = simulator.run(Load(32, 32 * 20, 2048, 128))
  drained = simulator.run(Load(32, 32, 2048, 128))
  tokens = 1 + np.cumprod(simulator.conditional).sum()
  place = (simulator.device, simulator.setup)
  closed = rounds.speculative_round(
    simulator.target, simulator.drafter, *place, 32, 2048 + 64, 3, tokens
  )
  assert ours.speedup == pytest.approx(float(closed.speedup), rel=0.02)
  assert drained.speedup < ours.speedup
  plain = roofline.model_pass(simulator.target, *place, 32, 2048 + 63.5)
  assert ours.plain_seconds == pytest.approx(
    20 * 128 * float(plain.seconds), rel=1e-4
  )


def test_more_lanes_than_requests():
  simulator = Simulator(TINY, rounds.lookup(), UNIT, Setup(), (0.5,))
  with pytest.raises(ValueError, match="3 requests leave some of 4 lanes"):
    simulator.run(Load(4, 3, 10, 5))
