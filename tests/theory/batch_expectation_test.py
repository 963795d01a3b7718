"""A draining batch in expectation: by hand, against draws, and as printed."""

import numpy as np
import pytest

from specjax.models.presets import PRESETS
from specjax.theory import devices, rounds, shapes
from specjax.theory.batch_expectation import expect, row_progress
from specjax.theory.batch_simulation import Load, Simulator
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
TOLERANCE = 0.035  # of the published serving page's figures


def _page(rows, gamma, draft=BASE, first=0.75, ratio=0.85, context=2048):
  simulator = Simulator(
    QWEN,
    rounds.lookup() if draft is None else rounds.separate(draft),
    devices.device("h100"),
    REACHED,
    tuple(first * ratio**i for i in range(gamma)),
  )
  return expect(simulator, rows, context, 256)


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
  assert _page(rows, gamma).speedup == pytest.approx(printed, rel=TOLERANCE)


def test_other_printed_figures():
  def near(value):
    return pytest.approx(value, rel=TOLERANCE)

  assert _page(1, 4, LARGE).speedup == near(1.39)
  assert _page(1, 4, LARGE, first=0.95).speedup == near(1.86)
  assert _page(1, 4, ratio=1.0).speedup == near(2.29)
  one = _page(1, 4)
  assert one.tokens_per_second == near(311)
  assert one.draft_share == near(0.26)
  assert one.operations_factor == near(2.06)
  assert one.mean_acceptance_length == near(2.63)
  assert _page(1, 10).operations_factor == near(4.53)
  assert _page(1, 4, None, ratio=1.0).operations_factor == near(1.62)
  crowd = _page(64, 4)
  assert crowd.drafts * 4 == near(25600)
  assert crowd.accepted / crowd.seconds == near(2519.6)
  long = _page(64, 4, context=8192)
  assert (long.draft_share, long.speedup) == (near(0.72), near(0.71))


def test_a_row_is_done_before_the_last():
  """Where drafting gains nothing for the batch, a row of its own may gain."""
  alone, crowd = _page(1, 5), _page(32, 5)
  assert alone.row_speedup == pytest.approx(alone.speedup)
  assert crowd.speedup < crowd.row_speedup < 1.06 * crowd.speedup


def test_one_row_by_hand():
  # A token or two a round, half and half, for three.
  running, done = row_progress((0.5,), 3)
  np.testing.assert_allclose(running, [1, 1, 0.25])
  np.testing.assert_allclose(done, [0, 1.5, 2])


def test_certain_acceptance_is_what_the_simulator_plays():
  simulator = Simulator(TINY, rounds.separate(SMALL), UNIT, Setup(), (1.0, 1.0))
  ours, drawn = expect(simulator, 2, 10, 7), simulator.run(Load(2, 2, 10, 7))
  assert (ours.drafts, ours.rounds) == (6, 3)
  np.testing.assert_allclose(ours.accepted_at, drawn.accepted_at)
  for name in ("seconds", "draft_seconds", "verify_seconds", "operations"):
    assert getattr(ours, name) == pytest.approx(getattr(drawn, name), rel=1e-5)
  assert ours.plain_seconds == pytest.approx(drawn.plain_seconds, rel=1e-5)
  assert ours.row_seconds == pytest.approx(ours.seconds)


def test_means_of_draws():
  """Seconds are linear in rows and context here, and so exact."""
  reads = devices.Device(1e9, 10.0, 5000.0, 4.0, "by hand")
  rates, rows, new, prompt = (0.7, 0.4), 3, 9, 10
  simulator = Simulator(TINY, rounds.separate(SMALL), reads, Setup(), rates)
  ours = expect(simulator, rows, prompt, new)
  rng = np.random.default_rng(0)
  seconds, own, drafts = [], [], []
  for _ in range(4000):
    done, clock = np.zeros(rows), 0.0
    ends, count = np.zeros(rows), 0
    while (running := done < new).any():
      active = running.sum()
      held = (prompt + done)[running].sum()
      clock += 2 * (200 + held * 32) / 10 + (2000 + held * 128) / 10
      count += active
      kept = np.cumprod(rng.random((rows, 2)) < rates, 1).sum(1)
      done = np.where(running, done + 1 + kept, done)
      ends[running & (done >= new)] = clock
    seconds.append(clock)
    own.append(ends.mean())
    drafts.append(count)
  for drawn, mean in (
    (seconds, ours.seconds),
    (own, ours.row_seconds),
    (drafts, ours.drafts),
  ):
    error = np.std(drawn) / np.sqrt(len(drawn))
    assert abs(np.mean(drawn) - mean) < 4 * error


def test_rates():
  ours = _page(8, 2, first=0.5, ratio=0.5)
  np.testing.assert_allclose(ours.acceptance_per_position, [0.5, 0.125])
  assert ours.accepted / ours.drafted == pytest.approx(0.3125)
  # Of a draft, 1.5 positions are judged and 0.625 kept.
  assert ours.judged_acceptance_rate == pytest.approx(0.625 / 1.5)
