"""Lookahead, goodput, long contexts and parallel drafting."""

import jax
import numpy as np
import pytest
from scipy import optimize

from specjax.theory import (
  goodput,
  long_context,
  lookahead,
  parallel,
  positions,
  speedup,
)


def test_lookahead_printed():
  counts = np.asarray([1, 15, 30])
  ours = lookahead.expected_tokens(0.425, counts, 4)
  np.testing.assert_allclose(ours, [1.715, 4.040, 4.537], atol=6e-4)
  ours = lookahead.expected_tokens(0.425, 15, 6)
  assert float(ours) == pytest.approx(4.313, abs=6e-4)


def test_lookahead_simulated():
  rng = np.random.default_rng(0)
  kept = np.cumprod(rng.random((100_000, 6, 3)) < 0.6, -1).sum(-1).max(1)
  ours = float(lookahead.expected_tokens(0.6, 6, 3))
  assert ours == pytest.approx(1 + kept.mean(), abs=0.01)


def test_lookahead_with_one_guess_is_equation_1():
  alpha = np.asarray([0.0, 0.3, 0.8, 1.0])
  ours = lookahead.expected_tokens(alpha, 1, 5)
  np.testing.assert_allclose(ours, speedup.tokens_per_pass(alpha, 5), 1e-6)
  assert float(lookahead.step_compression(3.0, 1)) == 3.0
  assert float(lookahead.step_compression(3.0, 4)) == 1.5
  assert lookahead.tokens_of_step(15, 15, 5) == 120


def test_goodput_of_a_mixed_batch():
  ours = goodput.goodput(
    np.asarray([0.5, 0.8, 0.9]), np.asarray([2, 0, 1]), 0.5
  )
  assert float(ours) == pytest.approx((1.75 + 1 + 1.9) / 0.5)


def test_best_goodput_length_shrinks_with_the_batch():
  lengths = np.arange(9)
  chosen = []
  choose = jax.jit(goodput.best_length)
  for batch in (1, 8, 32, 128, 1024):
    seconds = 8e-3 + 1e-7 * 500 * batch + 5e-5 * batch * (lengths + 1)
    ours = goodput.linear_step_seconds(
      500.0 * batch, batch * (lengths + 1.0), 1e-7, 5e-5, 8e-3
    )
    np.testing.assert_allclose(ours, seconds, rtol=1e-6)
    seconds = seconds + lengths * (4e-4 + 4e-5 * batch)
    best, rate = choose(np.full(batch, 0.7), seconds)
    chosen.append(int(best))
    tokens = batch * (1 - 0.7 ** (lengths + 1)) / 0.3
    assert chosen[-1] == np.argmax(tokens / seconds)
    assert float(rate) == pytest.approx((tokens / seconds).max(), rel=1e-5)
  assert chosen == sorted(chosen, reverse=True)
  assert chosen[0] > 2 and chosen[-1] == 0


def test_seconds_per_token():
  accepted = goodput.accepted_by_power_law(np.asarray([1.0, 4.0]))
  np.testing.assert_allclose(accepted, [0.9, 0.9 * 4**0.548], rtol=1e-6)
  # Yan et al.: throughput = TAR / (lookahead * t_d + t_v).
  ours = goodput.seconds_per_token(2.7, 5, 6.69, 100.0)
  assert 1 / float(ours) == pytest.approx(3.7 / (5 * 6.69 + 100))


def test_latency_grows_without_bound():
  ours = goodput.latency_under_load(2.0, np.asarray([0.0, 0.5, 1.0]), 1.0)
  np.testing.assert_array_equal(ours, [2.0, 4.0, np.inf])


# Llama-3.1-8B: parameters, 4 * layers * heads * head size, bytes of cache.
LLAMA = (2 * 8_030_261_248.0, 4 * 32 * 32 * 128.0, 131072.0)


def test_critical_context():
  ridge = 312e12 / 2039e9
  context = float(long_context.critical_context(3, *LLAMA, ridge))
  # About 4k tokens on A100s, as the paper states.
  assert 3000 < context < 4500
  operations, attention, size = LLAMA
  assert context * size / 2039e9 == pytest.approx(
    4 * (operations + context * attention) / 312e12, rel=1e-5
  )
  lengths = long_context.critical_context(np.asarray([0, 1, 4]), *LLAMA, ridge)
  assert (np.diff(np.asarray(lengths)) > 0).all()
  # A query that costs more than its key's bytes never gets there.
  assert np.isinf(float(long_context.critical_context(1000, *LLAMA, ridge)))


def test_cost_of_a_sparse_draft():
  ours = long_context.sparse_draft_cost(1.0, np.asarray([0.0, 1.0, 1e9]), 0.1)
  np.testing.assert_allclose(ours, [1.0, 0.55, 0.1], rtol=1e-6)


def test_parallel_drafting():
  # Every draft ready in time, as long as a pass: all tokens, nothing waited.
  assert float(parallel.parallel_speedup(1.0, 3.1, 2.0, 0.8, 0.4)) == (
    pytest.approx(3.1)
  )
  # Never a hit: ordinary speculation, a draft and a pass.
  tokens = speedup.tokens_per_pass(0.8, 4)
  ours = parallel.parallel_speedup(0.0, 9.0, tokens, 0.8, 4 * 0.1)
  assert float(ours) == pytest.approx(float(speedup.speedup(0.8, 4, 0.1)))
  # Played out, round by round.
  rng = np.random.default_rng(0)
  hit = rng.random(100_000) < 0.7
  simulated = np.where(hit, 3.2, 2.4).sum() / np.where(hit, 1.3, 1.4).sum()
  ours = parallel.parallel_speedup(0.7, 3.2, 2.4, 1.3, 0.4)
  assert float(ours) == pytest.approx(simulated, rel=0.01)


def test_fan_outs_are_the_best_split():
  alpha, exponent, budget, gamma = 0.7, 0.8, 40.0, 4
  ours = np.asarray(parallel.fan_outs(alpha, exponent, budget, gamma))
  assert ours.sum() == pytest.approx(budget, rel=1e-5)
  # Geometric below full acceptance.
  np.testing.assert_allclose(
    ours[1:gamma] / ours[: gamma - 1], alpha ** (1 / 1.8), rtol=1e-5
  )
  chance = np.append((1 - alpha) * alpha ** np.arange(gamma), alpha**gamma)

  def missed(fan):
    return (chance * np.asarray(parallel.cache_miss_rate(fan, exponent))).sum()

  best = optimize.minimize(
    lambda fan: (chance * fan**-exponent).sum(),
    np.full(gamma + 1, budget / (gamma + 1)),
    bounds=[(0.1, budget)] * (gamma + 1),
    constraints={"type": "eq", "fun": lambda fan: fan.sum() - budget},
    method="SLSQP",
    options={"ftol": 1e-12, "maxiter": 300},
  )
  assert missed(ours) == pytest.approx(best.fun, rel=1e-4)
  np.testing.assert_allclose(ours, best.x, rtol=0.02)


def test_training_tokens():
  ours = parallel.training_tokens(1000.0, np.asarray([0.7, 1.0]), 8)
  np.testing.assert_allclose(
    ours, [1000 * sum(0.7**i for i in range(8)), 8000], rtol=1e-6
  )


def test_one_head_gives_one_plus_alpha():
  """DeepSeek-V3's module: acceptance .85 to .90 is 1.81 to 1.86 at c = .02."""
  alpha = np.asarray([0.85, 0.90])
  ours = positions.speedup_by_length(alpha[:, None], np.full(2, 0.02))[:, 1]
  np.testing.assert_allclose(ours, [1.81, 1.86], atol=0.005)
