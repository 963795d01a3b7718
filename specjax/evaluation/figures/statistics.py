"""Ratios of speeds and differences of rates, paired by prompt.

The unit is the prompt. Its turns and repeats are pooled before anything else,
so that an interval speaks of other prompts and not of other runs of these: a
bootstrap resamples prompts whole, with all their turns and repeats.
"""

import dataclasses
import warnings
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Real
from scipy import stats

# One number a prompt.
Numbers = Sequence[float | int] | Real[np.ndarray, "P"]

LEVEL = 0.95
POWER = 0.8
RESAMPLES = 4999
_SEED = 0
# Below this many prompts a bootstrap's interval is too short: at five, 86 % of
# the nominal 95 % ones hold the truth of a normal law, at three 74 %.
_LEAST = 8
_MOST_NEEDED = 10**9


@dataclasses.dataclass(frozen=True)
class Estimate:
  """A figure over prompts, and how far it may be trusted.

  Attributes:
    estimate: the figure.
    low, high: its 95 % interval over prompts; None for a single one.
    n: prompts.
    n_needed: prompts that would show a difference of this size; see
      `prompts_needed`.
    method: of the interval: "BCa", "t", or "constant" where no prompt differs
      from another; None without an interval.
  """

  estimate: float
  low: float | None
  high: float | None
  n: int
  n_needed: int | None
  method: str | None


@dataclasses.dataclass(frozen=True)
class Speedup(Estimate):
  """How many times as fast A is as B; above 1, A is faster.

  `estimate` is the geometric mean of the per-prompt ratios of tokens per
  second, the only mean of ratios that swapping A and B turns into its inverse.
  The other three are printed beside it by their names, for they differ.

  Attributes:
    mean_of_ratios: arithmetic mean of the per-prompt ratios.
    ratio_of_means: mean tokens per second of A over that of B, as Spec-Bench's
      speed.py computes it.
    ratio_of_totals: all tokens over all seconds, of A over B: what a user waits
      for; long and fast answers weigh more.
  """

  mean_of_ratios: float
  ratio_of_means: float
  ratio_of_totals: float


def speedup(
  a_tokens: Numbers,
  a_seconds: Numbers,
  b_tokens: Numbers,
  b_seconds: Numbers,
) -> Speedup:
  """A's speed over B's; entry i of each is prompt i, repeats and turns summed.

  Raises:
    ValueError: no prompt, or one without tokens or seconds.
  """
  given = (a_tokens, a_seconds, b_tokens, b_seconds)
  values = np.asarray(given, np.float64)
  if values.shape[1] == 0 or not (values > 0).all():
    raise ValueError("a speedup needs prompts with tokens and seconds on both")
  a_tokens_, a_seconds_, b_tokens_, b_seconds_ = values
  a, b = a_tokens_ / a_seconds_, b_tokens_ / b_seconds_
  totals = values.sum(1)
  return Speedup(
    **dataclasses.asdict(geometric_mean(a / b)),
    mean_of_ratios=float((a / b).mean()),
    ratio_of_means=float(a.mean() / b.mean()),
    ratio_of_totals=float(totals[0] / totals[1] / (totals[2] / totals[3])),
  )


def geometric_mean(
  ratios: Numbers,
) -> Estimate:
  """Of positive ratios, one a prompt; the interval is that of the mean log."""
  logs = np.log(np.asarray(ratios, np.float64))
  low, high, method = _interval((logs,), lambda x, axis=-1: x.mean(axis), logs)
  return Estimate(
    estimate=float(np.exp(logs.mean())),
    low=None if low is None else float(np.exp(low)),
    high=None if high is None else float(np.exp(high)),
    n=len(logs),
    n_needed=prompts_needed(logs),
    method=method,
  )


def rate_difference(
  a_part: Numbers,
  a_whole: Numbers,
  b_part: Numbers,
  b_whole: Numbers,
) -> Estimate:
  """sum(a_part) / sum(a_whole) - sum(b_part) / sum(b_whole), paired by prompt.

  For acceptance rates: accepted and drafted tokens, a prompt an entry. Where a
  t interval is used its values are the prompts' influences on the difference
  (the linearised ratio estimator).

  Raises:
    ValueError: nothing was drafted on one of the sides.
  """
  given = (a_part, a_whole, b_part, b_whole)
  counts = np.asarray(given, np.float64)
  totals = counts.sum(1)
  if not (totals[1] > 0 and totals[3] > 0):
    raise ValueError("a rate needs something to be a rate of on both sides")

  def difference(ap, aw, bp, bw, axis=-1):
    with np.errstate(divide="ignore", invalid="ignore"):
      return ap.sum(axis) / aw.sum(axis) - bp.sum(axis) / bw.sum(axis)

  rate_a, rate_b = totals[0] / totals[1], totals[2] / totals[3]
  influences = (
    rate_a
    - rate_b
    + (counts[0] - rate_a * counts[1]) / counts[1].mean()
    - (counts[2] - rate_b * counts[3]) / counts[3].mean()
  )
  low, high, method = _interval(tuple(counts), difference, influences)
  return Estimate(
    estimate=float(rate_a - rate_b),
    low=low,
    high=high,
    n=counts.shape[1],
    n_needed=prompts_needed(influences),
    method=method,
  )


def prompts_needed(differences: Numbers) -> int | None:
  """Prompts that a paired t test needs to see the observed mean difference.

  At 5 % two-sided with 80 % power, for differences (or log ratios) with the
  observed mean and standard deviation: the least n whose noncentral t law puts
  80 % beyond the critical value. Above ten thousand, normal quantiles give it:
  n = ((z_0.975 + z_0.8) sd / mean)^2.

  Returns:
    None for fewer than two prompts, or a mean of exactly 0.
  """
  values = np.asarray(differences, np.float64)
  if len(values) < 2 or values.mean() == 0:
    return None
  if _constant(values):
    return 2
  effect = float(abs(values.mean()) / values.std(ddof=1))
  quantiles = stats.norm.ppf(0.5 + LEVEL / 2) + stats.norm.ppf(POWER)
  rough = float((quantiles / effect) ** 2)
  if rough > 1e4:
    return int(np.ceil(min(rough, _MOST_NEEDED)))
  n = max(2, int(rough))  # the t test needs a few more
  while _power(effect, n) < POWER:
    n += 1
  return n


def _interval(
  samples: tuple[np.ndarray, ...],
  statistic: Callable[..., np.ndarray],
  influences: np.ndarray,
) -> tuple[float | None, float | None, str | None]:
  """(low, high, method) of a statistic of paired samples.

  From few prompts, Student's t over the influences, whose mean the statistic
  is to first order. Else BCa (Efron 1987), at a level widened so that its
  normal case has t's length (Hesterberg 2015, section 4.3.1).
  """
  n = len(influences)
  if n < 2:
    return None, None, None
  middle = float(influences.mean())
  if _constant(influences):
    return middle, middle, "constant"
  quantile = stats.t.ppf(0.5 + LEVEL / 2, n - 1)
  half = float(quantile * influences.std(ddof=1) / np.sqrt(n))
  if n >= _LEAST:
    tail = stats.norm.cdf(-np.sqrt(n / (n - 1)) * quantile)
    with warnings.catch_warnings():
      # What does not vary enough for BCa comes back as NaN.
      warnings.simplefilter("ignore")
      found = stats.bootstrap(
        samples,
        statistic,
        paired=len(samples) > 1,
        vectorized=True,
        n_resamples=RESAMPLES,
        confidence_level=float(1 - 2 * tail),
        method="BCa",
        rng=np.random.default_rng(_SEED),
      ).confidence_interval
    if np.isfinite(found).all():
      return float(found.low), float(found.high), "BCa"
  return middle - half, middle + half, "t"


def _constant(values: np.ndarray) -> bool:
  return bool(np.ptp(values) <= 1e-12 * max(1.0, np.abs(values).max()))


def _power(effect: float, n: int) -> float:
  """Of a two-sided paired t test, for a mean of `effect` deviations."""
  critical = stats.t.ppf(0.5 + LEVEL / 2, n - 1)
  shift = effect * np.sqrt(n)
  upper = stats.nct.sf(critical, n - 1, shift)
  return float(upper + stats.nct.cdf(-critical, n - 1, shift))
