"""How far counts are from a law, and how far chance alone would put them.

Axes: M cells of a law. `outside` counts what the law says cannot happen.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy import stats

LEAST_EXPECTED = 5.0


class Interval(NamedTuple):
  """An estimate, and the limits of its 95 % interval."""

  estimate: float
  low: float
  high: float


def total_variation(
  counts: Int[np.ndarray, "M"],
  outside: int,
  probabilities: Float[np.ndarray, "M"],
) -> float:
  """Half of the summed absolute difference of frequencies and law."""
  number = counts.sum() + outside
  away = np.abs(counts / number - probabilities).sum()
  return float(0.5 * (away + outside / number))


def expected_total_variation(
  probabilities: Float[np.ndarray, "M"], number: int
) -> float:
  """What an exact sampler's `total_variation` is on average: the floor.

  By de Moivre's closed form of a binomial's mean absolute deviation,
  2 (1 - p) m P(X = m) with m = floor(n p) + 1.
  """
  p = probabilities
  m = np.floor(number * p) + 1
  deviation = 2 * (1 - p) * m * stats.binom.pmf(m, number, p)
  return float(0.5 * deviation.sum() / number)


def chi_square(
  counts: Int[np.ndarray, "M"],
  outside: int,
  probabilities: Float[np.ndarray, "M"],
) -> float:
  """p-value of Pearson's test; 0 where something impossible was counted.

  Cells that expect fewer than 5 are pooled.
  """
  if outside:
    return 0.0
  expected = probabilities * counts.sum()
  order = np.argsort(expected)
  observed, expected = counts[order].astype(float), expected[order]
  # The fewest small cells that together expect enough make one cell.
  small = int((expected < LEAST_EXPECTED).sum())
  while small and expected[:small].sum() < LEAST_EXPECTED:
    small += 1
    if small >= len(expected):
      break
  if small:
    observed, expected = (
      np.append(x[small:], x[:small].sum()) for x in (observed, expected)
    )
  if len(expected) < 2:
    return 1.0
  return float(stats.chisquare(observed, expected).pvalue)


def distance(
  places: Int[np.ndarray, "N"], probabilities: Float[np.ndarray, "M"]
) -> Interval:
  """A total variation that chance does not inflate.

  Half of the samples choose the set of cells that come out too often, the other
  half say by how much it does; then the halves change places. Its mean is 0 for
  an exact sampler, and never above the true distance. The interval is that of
  two estimates that err together, which is a little too wide.

  Args:
    places: the cell of each sample, negative where the law has none.
    probabilities: the law.
  """
  halves = places[0::2], places[1::2]
  excesses, deviations = [], []
  for chooser, judge in (halves, halves[::-1]):
    seen = np.bincount(chooser[chooser >= 0], minlength=len(probabilities))
    often = seen / len(chooser) > probabilities
    inside = judge >= 0
    share = float(np.where(inside, often[np.maximum(judge, 0)], True).mean())
    excesses.append(share - float(probabilities[often].sum()))
    deviations.append((share * (1 - share) / len(judge)) ** 0.5)
  estimate = sum(excesses) / 2
  margin = float(stats.norm.ppf(0.975)) * sum(deviations) / 2
  return Interval(estimate, estimate - margin, estimate + margin)


def uniformity(p_values: Float[np.ndarray, "n"]) -> float:
  """p-value of the Kolmogorov-Smirnov test that p-values are uniform.

  1 where each of them is 1: their tests had a single cell and say nothing.
  """
  if (p_values == 1.0).all():
    return 1.0
  return float(stats.kstest(p_values, "uniform").pvalue)
