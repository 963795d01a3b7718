"""The toy language: in numpy draw for draw, by the loop but for chance."""

import functools

import numpy as np
import pytest
from scipy import stats

from specjax.acceptance import BiasedResample, Rejection
from specjax.evaluation.reproduction import (
  bigram_loop,
  chain_law,
  walkthrough,
  walkthrough_oracle,
)
from specjax.theory import toy_language
from tests.evaluation.reproduction.changes import (
  HERE,
  QUICK,
  counts,
  differing,
  scaled,
)

ORACLE = "specjax.theory.toy_language"


def test_rounds_leave_the_target_s_law_and_a_biased_one_does_not():
  p, q = np.random.default_rng(0).dirichlet(np.ones(3), (2, 3))
  texts = toy_language.joint_law(p, 1, 4)
  for gamma in range(4):
    exact = chain_law.text_law(p, q, 1, gamma, 4)
    np.testing.assert_allclose(exact, texts, atol=1e-14)
  biased = chain_law.text_law(p, q, 1, 1, 1, True)
  kept = np.minimum(p[1], q[1])
  np.testing.assert_allclose(biased, kept + (1 - kept.sum()) * p[1])


@pytest.mark.runs_long  # the loop: thousands of rows
@pytest.mark.parametrize("rule, wrong", [(Rejection, 0), (BiasedResample, 1)])
def test_the_loop_draws_the_enumerated_law(rule, wrong):
  """Of three tokens, in programs for four."""
  p, q = np.random.default_rng(1).dirichlet(np.ones(3), (2, 3))
  p, q = p.astype(np.float32), q.astype(np.float32)
  laws = [
    chain_law.text_law(p.astype(float), q.astype(float), 2, 2, 4, bool(biased))
    for biased in (wrong, 1 - wrong)
  ]
  loop = bigram_loop.Loop(p, q, rule(), 3)
  drawn = loop.run(20_000, 2, num_speculative_tokens=2, length=4, seed=0)
  found = np.bincount(drawn.codes(3), minlength=81)
  own, other = (
    ((found - 20_000 * law) ** 2 / (20_000 * law)).sum() for law in laws
  )
  assert own < stats.chi2.isf(1e-5, 80) < other


def test_where_the_document_is_at_odds_with_itself():
  assert differing(walkthrough.laws(QUICK)) == [
    "text: least acceptance of exact match",
    "text: largest acceptance of exact match",
  ]


def test_timings_have_no_number_and_say_how_to_make_one():
  found = list(walkthrough.timings(QUICK))
  assert counts(found) == {"no published cell": 6}
  assert all("configs/seed000.py" in cell.note for cell in found)


def test_laws_move(assert_every_cell_moves):
  def tilted(laws):
    return lambda: (laws()[0] * np.asarray([0.7, 1.1, 1.1, 1.1]), laws()[1])

  def biased(law):
    return lambda *args: law(*args[:5], True)

  assert_every_cell_moves(
    walkthrough.laws,
    [
      (f"{ORACLE}:laws", tilted),
      (f"{HERE}.chain_law:text_law", biased),
      (
        "specjax.evaluation.exactness.statistics:expected_total_variation",
        scaled(1.2),
      ),
    ],
  )


def test_tables_of_speedup_move(assert_every_cell_moves):
  found = assert_every_cell_moves(
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
  assert set(counts(found)) == {"agrees"}


def test_arithmetic_moves(assert_every_cell_moves):
  def busier(f):
    """Half as many operations again, in half as much time again."""

    def call(*args):
      run = f(*args)
      return run._replace(
        operations=1.5 * run.operations,
        arithmetic_seconds=1.5 * run.arithmetic_seconds,
      )

    return call

  found = assert_every_cell_moves(
    walkthrough.arithmetic,
    [
      ("specjax.theory.roofline:Setup", lambda setup: lambda: setup(32)),
      ("specjax.theory.roofline:model_pass", busier),
    ],
  )
  assert set(counts(found)) == {"agrees"}


def _again(part):
  return lambda generator: part(np.random.default_rng(7))


def _unbiased(chain):
  return lambda biased=False: chain()


def test_tables_of_the_oracle_move(assert_every_cell_moves):
  other = (f"{ORACLE}:_Stream", _again)
  right = (f"{ORACLE}:_Chain", _unbiased)

  def sampled(settings):
    drawn = walkthrough_oracle.draw(settings)
    yield from walkthrough_oracle.sampler_table(drawn)
    yield from walkthrough_oracle.seeds(drawn)

  found = assert_every_cell_moves(sampled, [other, right], but="buggy: largest")
  assert set(counts(found)) == {"agrees", "no published cell"}


def test_acceptance_of_the_oracle_moves(assert_every_cell_moves, monkeypatch):
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
  found = assert_every_cell_moves(walkthrough_oracle.acceptance_table, [gain])
  assert set(counts(found)) == {"agrees"}


def test_cells_and_figures_of_one_call_share_their_draws(monkeypatch):
  seen = []

  def draw(settings):
    seen.append(settings)
    return made

  made = walkthrough_oracle.Drawn(
    {1_000: [toy_language.Fit(n, 0.1, 0.5) for n in toy_language.SAMPLERS]},
    {name: np.asarray([0.5, 0.25]) for name in toy_language.SAMPLERS},
  )
  monkeypatch.setattr(
    walkthrough_oracle, "drawn", functools.lru_cache(maxsize=1)(draw)
  )
  cells = iter(walkthrough.cells(QUICK))
  places = [next(cells).place for _ in range(20)]
  assert "sampler table, N = 1,000, buggy: p" in places
  variation, p_values, *_ = walkthrough.figures(QUICK)
  assert variation.curves["buggy"] == ([1_000], [0.1])
  assert p_values.curves["buggy"] == ([0.25, 0.5], [0.5, 1.0])
  assert len(seen) == 1
