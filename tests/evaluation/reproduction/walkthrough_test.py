"""The toy language: in numpy draw for draw, by the loop but for chance."""

import collections
import functools

import numpy as np
import pytest

from specjax.acceptance import BiasedResample, Rejection
from specjax.evaluation.reproduction import (
  Settings,
  bigram_loop,
  chain_law,
  walkthrough,
  walkthrough_loop,
)
from specjax.theory import toy_language

QUICK = Settings(quick=True)
ORACLE = "specjax.theory.toy_language"


def _verdicts(part):
  return collections.Counter(cell.verdict for cell in part(QUICK))


def _joint(p, start, length):
  """Law of texts by the chain rule."""
  law = p[start]
  for _ in range(length - 1):
    law = (law.reshape(-1, len(p))[:, :, None] * p[None]).reshape(-1)
  return law


def test_rounds_leave_the_target_s_law_and_a_biased_one_does_not():
  p, q = np.random.default_rng(0).dirichlet(np.ones(3), (2, 3))
  for gamma in range(4):
    exact = chain_law.text_law(p, q, 1, gamma, 4)
    np.testing.assert_allclose(exact, _joint(p, 1, 4), atol=1e-14)
  biased = chain_law.text_law(p, q, 1, 1, 1, True)
  kept = np.minimum(p[1], q[1])
  np.testing.assert_allclose(biased, kept + (1 - kept.sum()) * p[1])


@pytest.mark.parametrize("rule, wrong", [(Rejection, 0), (BiasedResample, 1)])
def test_the_loop_draws_the_enumerated_law(rule, wrong):
  p, q = np.random.default_rng(1).dirichlet(np.ones(3), (2, 3))
  p, q = p.astype(np.float32), q.astype(np.float32)
  laws = [
    chain_law.text_law(p.astype(float), q.astype(float), 2, 2, 3, bool(biased))
    for biased in (wrong, 1 - wrong)
  ]
  loop = bigram_loop.Loop(p, q, rule())
  drawn = loop.run(20_000, 2, num_speculative_tokens=2, length=3, seed=0)
  counts = np.bincount(drawn.codes(3), minlength=27)
  own, other = (
    ((counts - 20_000 * law) ** 2 / (20_000 * law)).sum() for law in laws
  )
  assert own < 70 < other  # chi-square of 26: p = 7e-6


def test_printed_figures_and_where_the_document_is_at_odds_with_itself():
  laws = list(walkthrough.laws(QUICK))
  assert {c.place for c in laws if c.verdict == "differs"} == {
    "text: least acceptance of exact match",
    "text: largest acceptance of exact match",
  }
  for part in (
    walkthrough.sampler_table,
    walkthrough.speedup_tables,
    walkthrough.arithmetic,
    walkthrough_loop.sampler_table,
    walkthrough_loop.acceptance_table,
  ):
    assert set(_verdicts(part)) == {"agrees"}, part
  assert set(_verdicts(walkthrough.timings)) == {"no published cell"}


def test_cells_move(assert_every_cell_moves):
  def tilted(laws):
    return lambda: (laws()[0] * np.asarray([0.7, 1.1, 1.1, 1.1]), laws()[1])

  assert_every_cell_moves(
    walkthrough.speedup_tables,
    [
      (
        "specjax.theory.speedup:speedup",
        lambda f: lambda alpha, gamma, cost: f(0.9 * alpha, gamma, cost) - 0.1,
      ),
      (
        "specjax.theory.speedup:best_length",
        lambda f: lambda *args: tuple(x + 1 for x in f(*args)),
      ),
      ("specjax.theory.speedup:most_tokens_per_pass", lambda f: lambda a: 6.0),
    ],
  )
  assert_every_cell_moves(
    walkthrough.arithmetic,
    [("specjax.theory.roofline:Setup", lambda setup: lambda: setup(32))],
    but="arithmetic|GFLOP",
  )
  assert_every_cell_moves(
    walkthrough.laws, [(f"{ORACLE}:laws", tilted)], but="1,000 samples|own law"
  )


def test_cells_of_the_oracle_move(assert_every_cell_moves, monkeypatch):
  def drawn_again(part):
    return lambda generator: part(np.random.default_rng(7))

  def unbiased(chain):
    return lambda biased=False: chain()

  other = (f"{ORACLE}:_Stream", drawn_again)
  right = (f"{ORACLE}:_Chain", unbiased)
  assert_every_cell_moves(walkthrough.sampler_table, [other, right])
  assert_every_cell_moves(walkthrough.seeds, [other], but="buggy")
  once = functools.cache(toy_language.acceptance_table)
  monkeypatch.setattr(toy_language, "acceptance_table", once)
  gain = (
    f"{ORACLE}:acceptance_table",
    lambda table: (
      lambda: [
        row._replace(alpha=0.9 * row.alpha, tokens=1.5 * row.tokens)
        for row in table()
      ]
    ),
  )
  assert_every_cell_moves(walkthrough.acceptance_table, [gain])
