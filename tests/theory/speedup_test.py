"""The printed tables of Leviathan et al. 2023, limits, and a simulation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specjax.theory import speedup as theory

# Table 1: alpha, gamma, operations factor, speed factor, at c = 0.
TABLE_1 = np.asarray(
  [
    [0.6, 2, 1.53, 1.96],
    [0.7, 3, 1.58, 2.53],
    [0.8, 2, 1.23, 2.44],
    [0.8, 5, 1.63, 3.69],
    [0.9, 2, 1.11, 2.71],
    [0.9, 10, 1.60, 6.86],
  ]
)
# Table 4: gamma, alpha, c, "Exp" as printed, and its tolerance. Alpha and c are
# rounded for print, which moves three of the twelve by 0.1.
TABLE_4 = np.asarray(
  [
    [7, 0.75, 0.02, 3.2, 0.05],
    [7, 0.80, 0.04, 3.3, 0.05],
    [7, 0.82, 0.11, 2.5, 0.05],
    [7, 0.62, 0.02, 2.3, 0.05],
    [5, 0.68, 0.04, 2.4, 0.1],
    [3, 0.71, 0.11, 2.0, 0.1],
    [5, 0.65, 0.02, 2.4, 0.05],
    [5, 0.73, 0.04, 2.6, 0.05],
    [3, 0.74, 0.11, 2.0, 0.05],
    [5, 0.53, 0.02, 1.9, 0.05],
    [3, 0.55, 0.04, 1.8, 0.05],
    [3, 0.56, 0.11, 1.6, 0.1],
  ]
)
# Best gamma and its factor by alpha and c, computed apart from this code.
COSTS = (0.01, 0.02, 0.05, 0.10, 0.20)
BEST = {
  0.5: [(5, 1.875), (4, 1.794), (3, 1.630), (2, 1.458), (1, 1.250)],
  0.6: [(7, 2.297), (6, 2.170), (4, 1.921), (3, 1.674), (2, 1.400)],
  0.7: [(9, 2.972), (8, 2.758), (6, 2.353), (4, 1.981), (3, 1.583)],
  0.8: [(14, 4.232), (11, 3.817), (8, 3.092), (6, 2.470), (4, 1.868)],
  0.9: [(24, 7.486), (19, 6.365), (13, 4.674), (10, 3.431), (7, 2.373)],
  0.95: [(40, 12.54), (31, 9.954), (21, 6.600), (15, 4.479), (10, 2.875)],
}
# The oracle's gain over the best fixed gamma by c and alpha (.5 to .9).
ORACLE = {
  0.01: [1.06, 1.07, 1.10, 1.14, 1.23],
  0.05: [1.17, 1.21, 1.27, 1.35, 1.48],
  0.10: [1.25, 1.30, 1.36, 1.45, 1.53],
}


best_length = jax.jit(theory.best_length, static_argnums=2)


def test_table_1():
  alpha, gamma, operations, speed = TABLE_1.T
  np.testing.assert_allclose(
    theory.operations_factor(alpha, gamma), operations, atol=0.005
  )
  np.testing.assert_allclose(theory.speedup(alpha, gamma), speed, atol=0.005)


def test_table_4_expected_column():
  gamma, alpha, cost, printed, tolerance = TABLE_4.T
  ours = np.asarray(theory.speedup(alpha, gamma, cost))
  off = np.abs(ours - printed)
  assert (off <= tolerance).all(), ours
  assert (off <= 0.05).sum() == 9


def test_lenient_factors_at_temperature_0():
  ours = theory.speedup(np.asarray([0.75, 0.75, 0.80, 0.87]), 8, 0.015)
  np.testing.assert_allclose(ours, [3.3, 3.3, 3.9, 4.9], atol=0.05)


def test_bigram_draft_of_translation():
  assert float(theory.speedup(0.2, 3)) == pytest.approx(1.25, abs=0.005)


def test_best_lengths():
  alpha = np.asarray(list(BEST))[:, None]
  lengths, factors = best_length(alpha, np.asarray(COSTS)[None], 60)
  expected = np.asarray(list(BEST.values()))
  np.testing.assert_array_equal(lengths, expected[..., 0])
  np.testing.assert_allclose(factors, expected[..., 1], rtol=4e-4)


def test_best_length_is_none_where_drafts_cost_more_than_they_give():
  lengths, factors = best_length(
    np.asarray([0.1, 0.3]), np.asarray([0.2, 0.2]), 20
  )
  assert list(np.asarray(lengths)) == [0, 1]
  assert float(factors[0]) == 1.0 and float(factors[1]) > 1.0


def test_lower_bound_is_a_draft_of_one_and_is_reached():
  alpha = np.linspace(0.05, 0.95, 10)[:, None]
  cost = np.linspace(0.0, 0.6, 7)[None]
  bound = theory.speedup_lower_bound(alpha, cost)
  one = jax.jit(theory.speedup)(alpha, 1, cost)
  np.testing.assert_allclose(bound, one, rtol=1e-6)
  _, best = best_length(alpha, cost, 100)
  assert (best >= jnp.where(alpha > cost, bound, 1) * (1 - 1e-6)).all()
  assert ((bound > 1) == (alpha > cost)).all()


def test_oracle_gains():
  alpha = np.asarray([0.5, 0.6, 0.7, 0.8, 0.9])
  gain = jax.jit(theory.oracle_gain, static_argnums=2)
  for cost, printed in ORACLE.items():
    ours = gain(alpha, cost, 60)
    np.testing.assert_allclose(ours, printed, atol=0.0051)


def test_tokens_are_the_sum_of_powers():
  for dtype, rtol in ((np.float32, 3e-6), (np.float64, 1e-13)):
    with jax.enable_x64(dtype == np.float64):
      gaps = np.logspace(-9, 0, 40)
      alpha = np.concatenate([[0.0, 1.0], 1 - gaps]).astype(dtype)[:, None]
      gamma = np.asarray([0, 1, 2, 5, 17, 100])[None]
      # alpha**100 in long double, from the very value that was rounded.
      wide = alpha.astype(np.longdouble)
      powers = [(wide**i) * (i <= gamma) for i in range(101)]
      expected = np.sum(powers, 0).astype(np.float64)
      ours = jax.jit(theory.tokens_per_pass)(alpha, gamma)
      assert ours.dtype == dtype
      np.testing.assert_allclose(ours, expected, rtol=rtol)


def test_slopes_are_those_of_the_sum_of_powers():
  alpha = np.asarray([0.0, 0.3, 0.9, 0.99, 0.996, 0.9999, 1.0])
  slope = jax.jit(jax.vmap(jax.grad(theory.tokens_per_pass), (0, None)))
  for gamma in (0, 1, 3, 8, 40):
    expected = sum(i * alpha ** (i - 1) for i in range(1, gamma + 1))
    ours = slope(alpha.astype(np.float32), float(gamma))
    np.testing.assert_allclose(ours, expected + 0 * alpha, rtol=2e-4, atol=1e-6)


def test_limits():
  alpha = np.linspace(0.0, 0.95, 20)
  ceiling = theory.most_tokens_per_pass(alpha)
  np.testing.assert_allclose(theory.tokens_per_pass(alpha, 400), ceiling, 1e-5)
  assert float(theory.most_tokens_per_pass(0.75)) == 4.0
  # A draft that is always right costs gamma c-hat more operations a token.
  np.testing.assert_allclose(theory.operations_factor(1.0, 4, 0.1), 1.08, 1e-6)
  assert float(theory.oracle_speedup(0.0, 0.1)) == 1.0


def test_simulated_rounds():
  rng = np.random.default_rng(0)
  alpha, gamma, rounds = 0.73, 5, 200_000
  kept = np.cumprod(rng.random((rounds, gamma)) < alpha, 1).sum(1)
  assert float(theory.tokens_per_pass(alpha, gamma)) == pytest.approx(
    1 + kept.mean(), abs=5 * kept.std() / np.sqrt(rounds)
  )
  # The oracle drafts exactly what will be kept.
  run = rng.geometric(1 - alpha, rounds) - 1
  simulated = (run + 1).mean() / (1 + 0.1 * run.mean())
  assert float(theory.oracle_speedup(alpha, 0.1)) == pytest.approx(
    simulated, rel=0.02
  )


def test_times_of_any_batch():
  # With a pass as dear as a step this is theorem 3.8.
  ours = theory.speedup_of_times(
    theory.tokens_per_pass(0.8, 4), 4, 0.2, 2.0, 2.0
  )
  assert float(ours) == pytest.approx(float(theory.speedup(0.8, 4, 0.1)))
  # Chen et al. 2023: 1.8 ms a draft token, 14.1 ms a target token, K = 4, XSum
  # from 14.1 to 7.52 ms a token.
  tokens = theory.tokens_of_speedup(14.1 / 7.52, 4, 1.8 / 14.1)
  assert float(tokens) == pytest.approx((4 * 1.8 + 14.1) / 7.52)
  # Medusa: tokens a step and overhead of a step, Vicuna-7B Medusa-2.
  ours = theory.speedup_of_times(3.47, 0, 0.0, 1.22, 1.0)
  assert float(ours) == pytest.approx(2.83, abs=0.02)


def test_blockwise_calls():
  assert float(theory.blockwise_calls(100, 4)) == 26.0


def test_acceptance_from_tokens():
  """Equation 1 turned round: its own quotient, and the ends of its range."""
  alpha = np.asarray([0.05, 0.5, 0.8, 0.95])[:, None]
  gamma = np.asarray([1.0, 4.0, 10.0])[None]
  tokens = (1 - alpha ** (gamma + 1)) / (1 - alpha)
  ours = theory.acceptance_of_tokens(tokens, gamma)
  np.testing.assert_allclose(ours, alpha + 0 * gamma, atol=2e-6)
  ends = theory.acceptance_of_tokens(np.asarray([0.5, 1.0, 5.0, 9.0]), 4)
  np.testing.assert_allclose(ends, [0, 0, 1, 1], atol=1e-6)
