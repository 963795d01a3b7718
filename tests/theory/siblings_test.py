"""The multi-draft acceptance table, by rules enumerated in numpy."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specjax.theory import acceptance, siblings

SMALL = (np.asarray([0.6, 0.3, 0.1]), np.asarray([0.3, 0.6, 0.1]))
RAMP = (np.arange(1, 7) / 21, np.arange(6, 0, -1) / 21)
NAIVE, RECURSIVE, KSEQ, BEST, DISTINCT, TOP = range(6)
RULES = (
  siblings.naive_acceptance,
  siblings.recursive_acceptance,
  siblings.kseq_acceptance,
  siblings.best_acceptance,
  siblings.distinct_acceptance,
  siblings.top_acceptance,
)


@functools.partial(jax.jit, static_argnums=2)
def accept(p, q, count):
  """Acceptance of all rules, one program for them."""
  return jnp.stack([rule(p, q, count) for rule in RULES])


# Laws, K, and the acceptance of each rule in the order above; computed apart
# from this code, by enumeration and linear programmes.
TABLE = [
  (SMALL, 1, (0.370, 0.700, 0.700, 0.700, 0.700, 0.300)),
  (SMALL, 2, (0.577, 0.790, 0.8254, 0.910, 0.925, 0.900)),
  (SMALL, 3, (0.7021, 0.853, 0.902, 1.0, 1.0, 1.0)),
  (RAMP, 1, (0.127, 0.5714, 0.5714, 0.5714, 0.5714, 0.0476)),
  (RAMP, 2, (0.2328, 0.6803, 0.6976, 0.7415, 0.7019, 0.1429)),
  (RAMP, 3, (0.3216, 0.7259, 0.7623, 0.8465, 0.7845, 0.2857)),
  (RAMP, 4, (0.3967, 0.7651, 0.8146, 0.8916, 0.8495, 0.4762)),
]


@pytest.mark.parametrize("laws, count, expected", TABLE)
def test_table(laws, count, expected):
  np.testing.assert_allclose(accept(*laws, count), expected, atol=6e-5)


def test_toy_of_the_walkthrough():
  setup = np.random.default_rng(2)
  p = setup.dirichlet(np.ones(4), size=4)
  q = 0.55 * p + 0.45 * setup.dirichlet(np.ones(4), size=4)
  ours = accept(p[0], q[0], 2)
  expected = [0.4267, 0.8193, 0.8474, 0.9192, 0.8828, 0.5901]
  np.testing.assert_allclose(ours, expected, atol=6e-5)


def _play(p, q, count, distinct):
  """Acceptance by one test after another, and the law that comes out."""
  if not count or not q.sum():
    return 0.0, p
  accepted, law = 0.0, np.zeros_like(p)
  left = np.maximum(p - q, 0)
  after = left / left.sum() if left.sum() > 0 else p
  for token in np.flatnonzero(q):
    keep = min(1.0, p[token] / q[token])
    draft = np.where((np.arange(len(q)) == token) & distinct, 0, q)
    draft = draft / draft.sum() if draft.sum() > 0 else draft
    later, rest = _play(after, draft, count - 1, distinct)
    accepted += q[token] * (keep + (1 - keep) * later)
    law[token] += q[token] * keep
    law += q[token] * (1 - keep) * rest
  return accepted, law


@pytest.mark.parametrize("distinct", [False, True])
def test_played_out(distinct):
  rng = np.random.default_rng(4)
  for count in (1, 2, 3, 5):
    p, q = rng.dirichlet(np.ones(4)), rng.dirichlet(np.full(4, 0.5))
    accepted, law = _play(p, q, count, distinct)
    np.testing.assert_allclose(law, p, atol=1e-12)
    ours = float(accept(p, q, count)[DISTINCT if distinct else RECURSIVE])
    assert ours == pytest.approx(accepted, abs=2e-6)


def test_a_draft_without_support_left_accepts_no_more():
  p, q = np.asarray([0.2, 0.3, 0.5]), np.asarray([1.0, 0.0, 0.0])
  assert float(accept(p, q, 3)[DISTINCT]) == pytest.approx(0.2)


def test_order_of_the_rules():
  rng = np.random.default_rng(6)
  p, q = rng.dirichlet(np.ones(5), 200), rng.dirichlet(np.ones(5), 200)
  for count in (1, 2, 3):
    naive, turns, kseq, best = np.asarray(accept(p, q, count))[:4]
    assert (naive <= turns + 1e-6).all()
    assert (turns <= kseq + 1e-5).all()
    assert (kseq <= best + 1e-5).all()
    assert (kseq >= (1 - np.exp(-1)) * best - 1e-5).all()
  one = acceptance.acceptance(p, q)
  np.testing.assert_allclose(accept(p, q, 1)[KSEQ], one, atol=2e-6)


def test_equal_laws_are_always_accepted():
  p = np.random.default_rng(7).dirichlet(np.ones(5), 10)
  ours = np.asarray(accept(p, p, 3))[[RECURSIVE, KSEQ, BEST, DISTINCT]]
  np.testing.assert_allclose(ours, 1, rtol=1e-6)


def test_independent_tests_are_biased():
  """SpecTr's counter-example: a fair coin against a draft that says 1."""
  p, q = np.asarray([0.5, 0.5]), np.asarray([0.0, 1.0])
  for count in (1, 2, 4, 8):
    law = siblings.independent_law(p, q, count)
    np.testing.assert_allclose(law, [2.0**-count, 1 - 2.0**-count], atol=1e-6)
  p, q = SMALL
  np.testing.assert_allclose(siblings.independent_law(p, q, 1), p, atol=1e-6)


def test_every_pair_against_the_best_cut():
  rng = np.random.default_rng(5)
  for _ in range(20):
    p, q = rng.dirichlet(np.ones(6)), rng.dirichlet(np.full(6, 0.5))
    for count in (1, 2, 4):
      sets = itertools.product([False, True], repeat=6)
      cuts = [
        p[list(s)].sum() + 1 - q[list(s)].sum() ** count
        for s in map(np.asarray, sets)
      ]
      ours = float(accept(p, q, count)[BEST])
      assert ours == pytest.approx(min(cuts), abs=1e-6)
