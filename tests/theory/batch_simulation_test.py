"""A simulated batch: by hand, and the printed figures of Qwen3-8B on an H100.

The printed page simulates 256 tokens for each of some rows at 2,048 tokens of
context, Qwen3-0.6B drafting, conditional acceptance .75 * .85^(i - 1), 80 % of
the bandwidth and 75 % of the arithmetic reached.
"""

import numpy as np
import pytest

from specjax.models.presets import PRESETS
from specjax.theory import devices, roofline, rounds, shapes
from specjax.theory.batch_simulation import Load, Simulator, plain_rounds
from specjax.theory.roofline import Setup
from specjax.theory.shapes import ModelShape

TINY = ModelShape(1000, 1000, 2, 4, 2, 8, 32)
SMALL = ModelShape(100, 100, 1, 2, 1, 8, 16)
UNIT = devices.Device(100.0, 10.0, 5000.0, 4.0, "by hand")
QWEN, BASE, LARGE = (
  shapes.shape_of(PRESETS[name])
  for name in ("qwen3-8b", "qwen3-0.6b", "qwen3-1.7b")
)
REACHED = Setup(bandwidth_share=0.8, operations_share=0.75)
TOLERANCE = 0.035


def _play(rows, gamma, draft=BASE, first=0.75, ratio=0.85, context=2048):
  simulator = Simulator(
    QWEN,
    rounds.lookup() if draft is None else rounds.separate(draft),
    devices.device("h100"),
    REACHED,
    tuple(first * ratio**i for i in range(gamma)),
  )
  load = Load(rows, rows, context, 256)
  # Single rows differ most from one another.
  runs = [simulator.run(load, seed) for seed in range(-(-64 // rows))]
  names = ("speedup", "draft_share", "operations_factor", "tokens_per_second")
  means = {n: np.mean([getattr(r, n) for r in runs]) for n in names}
  return means, runs[0]


@pytest.mark.parametrize(
  "rows, gamma, printed",
  [
    (1, 1, 1.61),
    (1, 3, 1.94),
    (1, 4, 1.94),
    (1, 6, 1.74),
    (1, 10, 1.42),
    (32, 1, 1.26),
    (32, 2, 1.27),
    (32, 4, 1.05),
    (32, 5, 0.94),
    (32, 10, 0.58),
    (64, 4, 0.88),
    (1024, 4, 0.65),
  ],
)
def test_printed_speedups(rows, gamma, printed):
  means, _ = _play(rows, gamma)
  assert means["speedup"] == pytest.approx(printed, rel=TOLERANCE)


@pytest.mark.parametrize(
  "settings, printed",
  [
    (dict(draft=LARGE), 1.39),
    (dict(draft=LARGE, first=0.95), 1.86),
    (dict(ratio=1.0), 2.29),
  ],
)
def test_printed_speedups_of_other_drafts(settings, printed):
  means, _ = _play(1, 4, **settings)
  assert means["speedup"] == pytest.approx(printed, rel=TOLERANCE)


def test_printed_readouts():
  means, _ = _play(1, 4)
  assert means["tokens_per_second"] == pytest.approx(311, rel=TOLERANCE)
  assert means["draft_share"] == pytest.approx(0.26, rel=TOLERANCE)
  assert means["operations_factor"] == pytest.approx(2.06, rel=TOLERANCE)
  means, _ = _play(1, 10)
  assert means["operations_factor"] == pytest.approx(4.53, rel=TOLERANCE)
  means, run = _play(64, 4)
  assert means["operations_factor"] == pytest.approx(2.07, rel=TOLERANCE)
  assert run.mean_acceptance_length == pytest.approx(2.61, rel=TOLERANCE)
  np.testing.assert_allclose(
    run.acceptance_per_position, [0.751, 0.477, 0.261, 0.123], atol=0.02
  )
  assert run.accepted / run.drafted == pytest.approx(0.403, rel=TOLERANCE)
  means, _ = _play(64, 4, context=8192)
  assert means["draft_share"] == pytest.approx(0.72, rel=TOLERANCE)
  assert means["speedup"] == pytest.approx(0.71, rel=TOLERANCE)
  means, _ = _play(1, 4, draft=None, ratio=1.0)
  assert means["operations_factor"] == pytest.approx(1.62, rel=TOLERANCE)


def test_lookup_wins_until_the_pass_is_bound_by_arithmetic():
  gains = [_play(rows, 4, draft=None)[0]["speedup"] for rows in (1, 64, 1024)]
  assert min(gains) > 2
  assert _play(1024, 4, draft=None, context=512)[0]["speedup"] < 1


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


def test_no_acceptance_is_plain_decoding_with_wider_passes():
  simulator = Simulator(TINY, rounds.lookup(), UNIT, Setup(), (0.0,))
  ours = simulator.run(Load(2, 2, 10, 5))
  assert ours.accepted == 0 and ours.drafts == 10
  assert ours.speedup == pytest.approx(1.0)
  assert ours.operations_factor == pytest.approx(2.0)


def test_a_full_queue_approaches_the_closed_form():
  """With lanes always full, raggedness costs nothing."""
  conditional = (0.75, 0.6, 0.5)
  simulator = Simulator(
    QWEN,
    rounds.separate(BASE),
    devices.device("h100"),
    REACHED,
    conditional,
  )
  ours = simulator.run(Load(32, 32 * 20, 2048, 128))
  drained = simulator.run(Load(32, 32, 2048, 128))
  tokens = 1 + np.cumprod(conditional).sum()
  closed = rounds.speculative_round(
    QWEN,
    simulator.drafter,
    simulator.device,
    REACHED,
    32,
    2048 + 64,
    3,
    tokens,
  )
  assert ours.speedup == pytest.approx(float(closed.speedup), rel=0.02)
  assert drained.speedup < ours.speedup
  plain = roofline.model_pass(QWEN, simulator.device, REACHED, 32, 2048 + 63.5)
  assert ours.plain_seconds == pytest.approx(
    20 * 128 * float(plain.seconds), rel=1e-4
  )


def test_more_lanes_than_requests():
  simulator = Simulator(TINY, rounds.lookup(), UNIT, Setup(), (0.5,))
  with pytest.raises(ValueError, match="3 requests leave some of 4 lanes"):
    simulator.run(Load(4, 3, 10, 5))
