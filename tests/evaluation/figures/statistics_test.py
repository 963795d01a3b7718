"""Intervals and power against closed forms, published tables and draws."""

import numpy as np
import pytest
from scipy import stats

from specjax.evaluation.figures import statistics
from specjax.evaluation.figures.wording import sentence


def _with_moments(mean, deviation, count):
  """`count` numbers, half on each side, with exactly these two moments."""
  sides = np.tile([-1.0, 1.0], count // 2)
  return mean + deviation * sides * np.sqrt((count - 1) / count)


def test_the_four_ratios_differ_and_each_has_its_name():
  # Tokens a second: A has 10 and 1, B 5 and 2; so 2 and 1/2.
  got = statistics.speedup([10, 10], [1, 10], [10, 10], [2, 5])
  assert got.estimate == pytest.approx(1.0)
  assert got.mean_of_ratios == pytest.approx(1.25)
  assert got.ratio_of_means == pytest.approx(11 / 7)
  assert got.ratio_of_totals == pytest.approx(7 / 11)
  assert got.n == 2


def test_few_prompts_have_students_interval_of_the_mean_log():
  ratios = [1.1, 1.4, 1.2, 1.9]
  got = statistics.geometric_mean(ratios)
  logs = np.log(ratios)
  half = 3.182446 * logs.std(ddof=1) / 2  # t table: 0.975 at 3 degrees
  assert got.method == "t"
  assert np.log(got.low) == pytest.approx(logs.mean() - half, abs=1e-6)
  assert np.log(got.high) == pytest.approx(logs.mean() + half, abs=1e-6)
  assert got.estimate == pytest.approx(stats.gmean(ratios))


def test_a_bootstrap_of_a_symmetric_sample_is_about_students():
  logs = _with_moments(0.3, 0.2, 40)
  got = statistics.geometric_mean(np.exp(logs))
  half = 2.022691 * 0.2 / np.sqrt(40)  # t table: 0.975 at 39 degrees
  assert got.method == "BCa"
  assert np.log([got.low, got.high]) == pytest.approx(
    [0.3 - half, 0.3 + half], abs=0.1 * half
  )


@pytest.mark.parametrize("prompts", [4, 9, 20])
def test_intervals_hold_the_truth(prompts):
  """300 runs of skewed ratios whose median, and geometric mean, is 1.3."""
  rng = np.random.default_rng(prompts)
  held = 0
  for _ in range(300):
    ratios = 1.3 * np.exp(rng.laplace(0, 0.2, prompts))
    got = statistics.geometric_mean(ratios)
    held += got.low <= 1.3 <= got.high
  assert 0.90 <= held / 300 <= 0.99


@pytest.mark.parametrize("prompts", [5, 16])
def test_intervals_of_rate_differences_hold_the_truth(prompts):
  """Acceptance varies by prompt, alike in both runs, and falls by 0.1."""
  rng = np.random.default_rng(prompts)
  held = 0
  for _ in range(300):
    rate = rng.beta(8, 4, prompts)
    drafted_a = rng.integers(40, 160, prompts)
    drafted_b = rng.integers(40, 160, prompts)
    a = rng.binomial(drafted_a, rate)
    b = rng.binomial(drafted_b, rate - 0.1 * rate / (2 / 3))
    got = statistics.rate_difference(b, drafted_b, a, drafted_a)
    held += got.low <= -0.1 <= got.high
  assert 0.90 <= held / 300 <= 0.99


def test_a_rate_difference_is_one_of_pooled_rates():
  got = statistics.rate_difference([9, 1], [10, 100], [5, 50], [10, 100])
  assert got.estimate == pytest.approx(10 / 110 - 55 / 110)
  assert got.n == 2 and got.method == "t"
  with pytest.raises(ValueError, match="rate"):
    statistics.rate_difference([0], [0], [1], [2])


# Cohen 1988 and G*Power, t test of a mean difference, two-sided 5 %, power 0.8.
@pytest.mark.parametrize("effect, needed", [(0.2, 199), (0.5, 34), (0.8, 15)])
def test_prompts_needed_are_the_tables(effect, needed):
  values = _with_moments(effect, 1.0, 50)
  assert statistics.prompts_needed(values) == needed
  assert statistics.prompts_needed(-3 * values) == needed


def test_prompts_needed_of_a_small_effect_are_those_of_normal_quantiles():
  # (1.959964 + 0.841621)^2 / 0.01^2 = 78,488.8
  assert statistics.prompts_needed(_with_moments(0.01, 1.0, 50)) == 78_489


def test_so_many_prompts_see_the_difference_in_four_runs_of_five():
  rng = np.random.default_rng(0)
  draws = rng.normal(0.5, 1.0, (4000, 34))
  seen = (stats.ttest_1samp(draws, 0.0, axis=1).pvalue < 0.05).mean()
  assert seen == pytest.approx(0.8, abs=0.02)


def test_nothing_is_needed_where_nothing_differs():
  assert statistics.prompts_needed([0.0, 0.0]) is None
  assert statistics.prompts_needed([-1.0, 1.0]) is None
  assert statistics.prompts_needed([0.4]) is None
  assert statistics.prompts_needed([0.4, 0.4, 0.4]) == 2


@pytest.mark.parametrize("prompts", [5, 30])
def test_swapping_inverts_ratio_and_interval(prompts):
  rng = np.random.default_rng(1)
  a_tokens, b_tokens = rng.integers(20, 200, (2, prompts))
  a_seconds, b_seconds = rng.uniform(1, 3, (2, prompts))
  ab = statistics.speedup(a_tokens, a_seconds, b_tokens, b_seconds)
  ba = statistics.speedup(b_tokens, b_seconds, a_tokens, a_seconds)
  assert ba.estimate == pytest.approx(1 / ab.estimate)
  assert ba.low == pytest.approx(1 / ab.high)
  assert ba.high == pytest.approx(1 / ab.low)
  assert ba.n_needed == ab.n_needed
  assert ba.ratio_of_totals == pytest.approx(1 / ab.ratio_of_totals)


def test_a_slower_clock_on_both_sides_changes_nothing():
  rng = np.random.default_rng(2)
  tokens, seconds, base = rng.uniform(1, 3, (3, 12))
  once = statistics.speedup(tokens, seconds, tokens, base)
  twice = statistics.speedup(tokens, 2 * seconds, tokens, 2 * base)
  for name in ("estimate", "low", "high", "ratio_of_totals"):
    assert getattr(twice, name) == pytest.approx(getattr(once, name))


def test_what_cannot_vary_has_an_interval_of_no_width():
  got = statistics.geometric_mean([1.5] * 10)
  assert (got.low, got.high) == pytest.approx((1.5, 1.5))
  assert got.method == "constant"


def test_sentences():
  rng = np.random.default_rng(3)
  clear = statistics.geometric_mean(np.exp(rng.normal(0.3, 0.1, 12)))
  words = sentence("ngram", "none", clear)
  assert words.startswith(f"ngram beats none by {clear.estimate:.2f}x (")
  assert words.endswith(f"12 prompts); {clear.n_needed} would show it")
  slow = statistics.geometric_mean([0.5, 0.52, 0.51])
  assert "ngram is slower than none: 0.51x" in sentence("ngram", "none", slow)
  unclear = statistics.geometric_mean([0.9, 1.2, 1.0, 0.95])
  words = sentence("ngram", "none", unclear)
  assert words.startswith("no difference seen between ngram and none: 1.01x (")
  assert words.endswith(f"{unclear.n_needed} prompts needed to show this much")


def test_one_prompt_has_no_interval_and_says_so():
  got = statistics.speedup([10], [1], [10], [2])
  assert (got.estimate, got.low, got.high, got.n_needed) == (
    2,
    None,
    None,
    None,
  )
  words = sentence("ngram", "none", got)
  assert (
    words == "ngram ran at 2.00x of none on one prompt; no interval from one"
  )


@pytest.mark.parametrize("seconds", [[], [0.0]])
def test_no_speedup_of_nothing(seconds):
  with pytest.raises(ValueError, match="tokens and seconds"):
    statistics.speedup([1.0] * len(seconds), seconds, seconds, seconds)
