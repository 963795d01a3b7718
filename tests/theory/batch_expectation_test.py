"""A draining batch in expectation: by hand, against draws, and as printed."""

import functools

import numpy as np
import pytest

from specjax.evaluation.reproduction import serving_page
from specjax.evaluation.reproduction.serving_page import Case
from specjax.theory import devices, rounds
from specjax.theory.batch_expectation import expect, row_progress
from specjax.theory.batch_simulation import Load, Simulator
from specjax.theory.roofline import Setup
from specjax.theory.shapes import ModelShape

TINY = ModelShape(1000, 1000, 2, 4, 2, 8, 32)
SMALL = ModelShape(100, 100, 1, 2, 1, 8, 16)
UNIT = devices.Device(100.0, 10.0, 5000.0, 4.0, "by hand")


@functools.cache
def _page(case):
  simulator = serving_page.simulator(case)
  return expect(simulator, case.batch, case.context, serving_page.NEW_TOKENS)


def test_printed_readouts():
  off = {}
  for place, case, readout, printed, decimals in serving_page.READOUTS:
    ours = serving_page.readouts(_page(case))[readout]
    # Readouts are rounded, and positions those of one run.
    rounding = 0.02 if "position" in place else 0.5 * 10**-decimals
    allowed = max(serving_page.TOLERANCE * printed, rounding)
    if abs(ours - printed) > allowed:
      off[place] = (ours, printed)
  assert not off


def test_a_row_is_done_before_the_last():
  """Where drafting gains nothing for the batch, a row of its own may gain."""
  alone, crowd = _page(Case(1, 5)), _page(Case(32, 5))
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
  ours = _page(Case(8, 2, first=0.5, ratio=0.5))
  np.testing.assert_allclose(ours.acceptance_per_position, [0.5, 0.125])
  assert ours.accepted / ours.drafted == pytest.approx(0.3125)
  # Of a draft, 1.5 positions are judged and 0.625 kept.
  assert ours.judged_acceptance_rate == pytest.approx(0.625 / 1.5)
