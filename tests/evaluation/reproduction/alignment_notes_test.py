"""The alignment notes: everything agrees, and moves when it is perturbed."""

import numpy as np
from scipy import special

from specjax.evaluation.reproduction import Settings, alignment_notes

MODULE = "specjax.evaluation.reproduction.alignment_notes"
QUICK = Settings(quick=True)


def _closed(settings):
  yield from alignment_notes._best_lengths()
  yield from alignment_notes._batches()


def _generations(settings):
  yield from alignment_notes._hand_example(settings)
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
  assert {c.verdict for c in _closed(QUICK)} == {"agrees"}
  assert_every_cell_moves(
    _closed,
    [
      ("specjax.theory.speedup:speedup", _tilted),
      ("specjax.theory.rounds:speculative_round", _slower),
    ],
  )


def test_generations(assert_every_cell_moves):
  """A biased rule is seen; "beta" and the like move with the target's law."""
  assert {c.verdict for c in _generations(QUICK)} == {"agrees"}
  assert_every_cell_moves(
    _generations,
    [
      (f"{MODULE}:RULE", lambda name: "biased_resample"),
      (f"{MODULE}:P", lambda p: np.asarray([0.5, 0.35, 0.15])),
      (
        "specjax.theory.acceptance:residual",
        lambda f: lambda p, q: f(p, q) + 0.01,
      ),
    ],
    but="variation, plain",
  )


def test_the_bigram_run(assert_every_cell_moves):
  found = list(alignment_notes._toy_tokens(QUICK))
  assert {c.verdict for c in found} == {"agrees"}
  assert {c.group for c in found} == {"formula", "sampler"}
  assert_every_cell_moves(
    alignment_notes._toy_tokens, [(f"{MODULE}:bigram_laws", _noisier)]
  )


def test_figures():
  lengths, batches = alignment_notes.figures(QUICK)
  x, y = lengths.curves["alpha 0.8"]
  assert x[int(np.argmax(y))] == 8
  assert batches.published and batches.logx
