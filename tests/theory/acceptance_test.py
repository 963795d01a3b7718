"""Identities of the acceptance of one token, against the rules played out."""

import numpy as np
import pytest

from specjax.theory import acceptance as theory


def _laws(rng, shape, size):
  return rng.dirichlet(np.ones(size), shape), rng.dirichlet(
    np.full(size, 0.4), shape
  )


@pytest.fixture
def laws():
  return _laws(np.random.default_rng(1), (50,), 7)


def test_hand_example():
  p, q = np.asarray([0.6, 0.3, 0.1]), np.asarray([0.3, 0.6, 0.1])
  assert float(theory.acceptance(p, q)) == pytest.approx(0.7)
  assert float(theory.divergence(p, q)) == pytest.approx(0.3)
  np.testing.assert_allclose(theory.residual(p, q), [1, 0, 0], atol=1e-6)


def test_acceptance_is_one_minus_total_variation(laws):
  p, q = laws
  variation = np.abs(p - q).sum(-1) / 2
  np.testing.assert_allclose(theory.divergence(p, q), variation, 1e-5)
  np.testing.assert_allclose(theory.acceptance(p, q), 1 - variation, 1e-5)


def test_kept_and_replaced_tokens_together_have_the_target_law(laws):
  p, q = laws
  refused = 1 - np.asarray(theory.acceptance(p, q))[:, None]
  law = np.minimum(p, q) + refused * theory.residual(p, q)
  np.testing.assert_allclose(law, p, atol=1e-6)


def test_residual_of_equal_laws_is_the_law(laws):
  p, _ = laws
  np.testing.assert_allclose(theory.residual(p, p), p, rtol=1e-6)


def test_the_exact_rule_accepts_most(laws):
  p, q = laws
  best = np.asarray(theory.acceptance(p, q))
  for rule in (theory.exact_match_acceptance, theory.single_test_acceptance):
    assert (np.asarray(rule(p, q)) <= best + 1e-6).all()
  # One token that the target likes and the draft never says spoils them all.
  p, q = np.asarray([0.9, 0.1]), np.asarray([1.0, 0.0])
  assert float(theory.single_test_acceptance(p, q)) == 0.0
  assert float(theory.single_test_acceptance(q, p)) == pytest.approx(0.9)


def test_exact_match_simulated(laws):
  rng = np.random.default_rng(2)
  p, q = laws[0][0], laws[1][0]
  draws = 100_000
  hits = rng.choice(7, draws, p=p) == rng.choice(7, draws, p=q)
  assert float(theory.exact_match_acceptance(p, q)) == pytest.approx(
    hits.mean(), abs=0.01
  )


def test_the_toy_of_the_walkthrough():
  """Its printed alphas; the sums of p q for its own tables."""
  setup = np.random.default_rng(2)
  p = setup.dirichlet(np.ones(4), size=4)
  q = 0.55 * p + 0.45 * setup.dirichlet(np.ones(4), size=4)
  np.testing.assert_allclose(
    theory.acceptance(p, q), [0.672, 0.692, 0.856, 0.863], atol=0.0005
  )
  np.testing.assert_allclose(
    theory.exact_match_acceptance(p, q),
    [0.245, 0.270, 0.321, 0.316],
    atol=0.0005,
  )


def test_lenience(laws):
  p, q = laws
  strict = theory.lenient_acceptance(p, q, 1.0)
  np.testing.assert_allclose(strict, theory.acceptance(p, q), rtol=1e-6)
  np.testing.assert_allclose(theory.lenient_law(p, q, 1.0), p, atol=1e-6)
  before = np.asarray(strict)
  for lenience in (0.5, 0.3, 0.1):
    now = np.asarray(theory.lenient_acceptance(p, q, lenience))
    assert (now >= before - 1e-6).all()
    before = now
    law = np.asarray(theory.lenient_law(p, q, lenience))
    np.testing.assert_allclose(law.sum(-1), 1, rtol=1e-5)
    assert (law <= p / lenience + 1e-6).all()
    assert np.abs(law - p).max() > 0.01


def test_lenient_rule_played_out():
  rng = np.random.default_rng(3)
  p, q = np.asarray([0.5, 0.3, 0.2]), np.asarray([0.1, 0.2, 0.7])
  lenience, draws = 0.6, 200_000
  token = rng.choice(3, draws, p=q)
  kept = rng.random(draws) * lenience * q[token] < p[token]
  left = np.maximum(p - lenience * q, 0)
  spare = rng.choice(3, draws, p=left / left.sum())
  counts = np.bincount(np.where(kept, token, spare), minlength=3)
  assert float(theory.lenient_acceptance(p, q, lenience)) == pytest.approx(
    kept.mean(), abs=0.006
  )
  np.testing.assert_allclose(
    theory.lenient_law(p, q, lenience), counts / draws, atol=0.006
  )
