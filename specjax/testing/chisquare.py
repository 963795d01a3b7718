"""Chi-square tests of counts against a law that is known exactly."""

import numpy as np
from jaxtyping import Float, Int
from scipy import stats

LEAST_EXPECTED = 5.0
FAILURE_PROBABILITY = 1e-6


def assert_law(
  counts: Int[np.ndarray, "..."],
  expected: Float[np.ndarray, "..."],
  failure_probability: float = FAILURE_PROBABILITY,
  what: str = "counts",
) -> float:
  """Fails unless counts look drawn from a law.

  A right program fails with at most about `failure_probability`. Cells that
  expect fewer than 5 are pooled. A count where the law has probability 0 fails
  at once.

  Args:
    counts: observations of each cell, any shape.
    expected: the law, the same shape; scaled to the counts' total.
    failure_probability: of the test, if the law holds.
    what: named in the message.

  Returns:
    The p-value.

  Raises:
    AssertionError: with the worst cells.
  """
  return assert_conditional_law(
    counts.reshape(1, -1), expected.reshape(1, -1), failure_probability, what
  )


def assert_conditional_law(
  counts: Int[np.ndarray, "C V"],
  laws: Float[np.ndarray, "C V"],
  failure_probability: float = FAILURE_PROBABILITY,
  what: str = "counts",
) -> float:
  """As `assert_law`, the chi-squares of C contexts added up.

  How often each context came up is taken as it is.
  """
  laws = laws / np.maximum(laws.sum(-1, keepdims=True), 1e-300)
  expected = laws * counts.sum(-1, keepdims=True)
  outside = np.argwhere((counts > 0) & (laws <= 0.0))
  if len(outside):
    cells = ", ".join(
      f"{tuple(int(i) for i in c)}: {counts[tuple(c)]}" for c in outside[:5]
    )
    raise AssertionError(f"{what}: counts outside the support: {cells}")
  total, freedom = 0.0, 0
  for observed, wanted in zip(counts, expected, strict=True):
    observed, wanted = _pool(observed, wanted)
    total += float(((observed - wanted) ** 2 / wanted).sum())
    freedom += max(len(wanted) - 1, 0)
  if not freedom:
    return 1.0
  p_value = float(stats.chi2.sf(total, freedom))
  if p_value < failure_probability:
    raise AssertionError(
      f"{what}: chi-square {total:.1f} with {freedom} degrees of freedom,"
      f" p = {p_value:.1e} < {failure_probability:g}; worst cells:\n"
      + _worst(counts, expected)
    )
  return p_value


def _pool(observed, wanted):
  """Cells that expect enough; the others become one cell, or join the least."""
  possible = wanted > 0.0
  observed, wanted = observed[possible].astype(np.float64), wanted[possible]
  small = wanted < LEAST_EXPECTED
  rest = observed[small].sum(), wanted[small].sum()
  observed, wanted = observed[~small], wanted[~small]
  if rest[1] >= LEAST_EXPECTED:
    return np.append(observed, rest[0]), np.append(wanted, rest[1])
  if len(wanted):
    least = int(np.argmin(wanted))
    observed[least] += rest[0]
    wanted[least] += rest[1]
  return observed, wanted


def _worst(counts, expected, number: int = 5) -> str:
  away = (counts - expected) / np.sqrt(np.maximum(expected, 1.0))
  order = np.argsort(-np.abs(away), axis=None)[:number]
  lines = []
  for flat in order:
    cell = np.unravel_index(int(flat), counts.shape)
    name = tuple(int(i) for i in cell)
    lines.append(
      f"  {name}: observed {counts[cell]}, expected {expected[cell]:.1f}"
      f" ({away[cell]:+.1f} deviations)"
    )
  return "\n".join(lines)
