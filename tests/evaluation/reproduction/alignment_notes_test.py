"""The alignment notes: everything agrees, and moves when it is perturbed."""

import numpy as np
import pytest
from scipy import special

from specjax.evaluation.reproduction import alignment_notes
from tests.evaluation.reproduction.changes import HERE, QUICK, counts

pytestmark = pytest.mark.runs_long  # the loop: thousands of rows

MODULE = f"{HERE}.alignment_notes"


def _closed(settings):
  yield from alignment_notes._best_lengths()
  yield from alignment_notes._batches()


def _hand(settings):
  yield from alignment_notes._hand_example(settings)


def _exactness(settings):
  yield from alignment_notes._exactness(settings)


def _tilted(f):
  """The longer the draft, the better: other values and another optimum."""
  return lambda alpha, gamma, cost: f(alpha, gamma, cost) * (1 + 0.1 * gamma)


def _slower(f):
  def call(*args):
    ours = f(*args)
    return ours._replace(
      speedup=1.25 * ours.speedup,
      plain=ours.plain._replace(seconds=1.1 * ours.plain.seconds),
      draft=ours.draft._replace(seconds=1.4 * ours.draft.seconds),
      verify=ours.verify._replace(seconds=1.4 * ours.verify.seconds),
    )

  return call


def _noisier(f):
  def call():
    p, _ = f()
    noise = np.random.default_rng(5).normal(0, 2.0, p.shape)
    return p, special.softmax(np.log(p) + noise, -1)

  return call


def test_closed_forms(assert_every_cell_moves):
  found = assert_every_cell_moves(
    _closed,
    [
      ("specjax.theory.speedup:speedup", _tilted),
      ("specjax.theory.rounds:speculative_round", _slower),
    ],
  )
  assert set(counts(found)) == {"agrees"}


def _biased(loop):
  """A loop that gives another law than the target's."""
  return lambda p, q, *rest, **longest: loop(
    0.7 * p + 0.3 * q, q, *rest, **longest
  )


def test_hand_example(assert_every_cell_moves):
  found = assert_every_cell_moves(
    _hand,
    [
      (f"{MODULE}:P", lambda p: np.asarray([0.5, 0.35, 0.15])),
      (f"{MODULE}:Loop", _biased),
      (
        "specjax.theory.acceptance:residual",
        lambda f: lambda p, q: f(p, q) + 0.01,
      ),
    ],
  )
  assert counts(found) == {"agrees": 11}


def test_a_biased_loop_is_seen(assert_every_cell_moves):
  assert_every_cell_moves(_exactness, [(f"{MODULE}:Loop", _biased)])


def test_the_bigram_run(assert_every_cell_moves):
  found = assert_every_cell_moves(
    alignment_notes._toy_tokens, [(f"{MODULE}:bigram_laws", _noisier)]
  )
  assert set(counts(found)) == {"agrees"}
  assert {c.group for c in found} == {"formula", "sampler"}


def test_figures():
  lengths, batches = alignment_notes.figures(QUICK)
  x, y = lengths.curves["alpha 0.8"]
  assert x[int(np.argmax(y))] == 8
  assert batches.published and batches.logx
