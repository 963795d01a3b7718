"""From acceptance by position to tokens, and the two ways to print it."""

import jax
import numpy as np
import pytest

from specjax.theory import positions as theory
from specjax.theory import speedup

best_length = jax.jit(theory.best_length)


def test_a_falling_chain():
  """Conditional .75 * .85^(i - 1); its products by hand."""
  rates = theory.falling(0.75, 0.85, 4)
  np.testing.assert_allclose(
    rates, [0.75, 0.6375, 0.541875, 0.46059375], rtol=1e-6
  )
  kept = theory.unconditional(rates)
  np.testing.assert_allclose(kept, [0.750, 0.478, 0.259, 0.119], atol=5e-4)
  assert float(theory.expected_tokens(rates)) == pytest.approx(2.607, abs=1e-3)
  # What a server would log of it: 10312 accepted of 25600 drafted tokens.
  rate = float(theory.draft_acceptance_rate(rates))
  assert rate == pytest.approx(0.403, abs=0.002)


def test_conditional_turns_unconditional_round():
  rng = np.random.default_rng(0)
  rates = rng.random((6, 5)).astype(np.float32)
  rates[0, 2] = 0.0
  kept = theory.unconditional(rates)
  back = np.asarray(theory.conditional(kept))
  rates[0, 3:] = 0.0  # never reached
  np.testing.assert_allclose(back, rates, rtol=1e-5)


@pytest.mark.parametrize("alpha", [0.0, 0.4, 0.9, 1.0])
def test_equal_rates_are_the_closed_form(alpha):
  rates = theory.falling(alpha, 1.0, 9)
  lengths = np.arange(10)
  np.testing.assert_allclose(
    theory.tokens_by_length(rates),
    speedup.tokens_per_pass(alpha, lengths),
    rtol=2e-6,
  )
  np.testing.assert_allclose(
    theory.speedup_by_length(rates, 0.05),
    speedup.speedup(alpha, lengths, 0.05),
    rtol=2e-6,
  )
  np.testing.assert_allclose(
    theory.operations_by_length(rates, 0.07),
    speedup.operations_factor(alpha, lengths, 0.07),
    rtol=2e-6,
  )


def test_best_length_of_falling_acceptance_is_no_longer():
  alpha = np.asarray([0.5, 0.7, 0.8, 0.9])
  flat, gain = best_length(theory.falling(alpha, 1.0, 30), 0.05)
  expected, factor = speedup.best_length(alpha, 0.05, 30)
  np.testing.assert_array_equal(flat, expected)
  np.testing.assert_allclose(gain, factor, rtol=1e-6)
  bent, less = best_length(theory.falling(alpha, 0.85, 30), 0.05)
  assert (np.asarray(bent) < np.asarray(flat)).all()
  assert (np.asarray(less) < np.asarray(gain)).all()
  none, one = best_length(np.asarray([0.04, 0.9]), 0.05)
  assert int(none) == 0 and float(one) == 1.0


def test_simulated_positions():
  rng = np.random.default_rng(1)
  rates = np.asarray([0.9, 0.5, 0.8])
  kept = np.cumprod(rng.random((200_000, 3)) < rates, 1)
  np.testing.assert_allclose(
    theory.unconditional(rates), kept.mean(0), atol=0.005
  )
  assert float(theory.expected_tokens(rates)) == pytest.approx(
    1 + kept.sum(1).mean(), abs=0.01
  )
