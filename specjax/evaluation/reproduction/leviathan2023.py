"""Leviathan, Kalman, Matias 2023: what formulas and algorithm 1 itself give.

Tables 1, 2, 4 and the factors of appendix A.5 follow from theorems 3.8 and 3.11
at the printed alpha, gamma and c. The alphas of tables 3 and 5 are those of
models: `leviathan2023_trained` makes table 3 in small.
"""

import itertools
import math
from collections.abc import Iterator

import numpy as np
from jaxtyping import Float

from specjax.acceptance import Rejection
from specjax.evaluation.exactness import statistics
from specjax.evaluation.reproduction import bigram_loop, chain_law
from specjax.evaluation.reproduction import leviathan2023_printed as printed
from specjax.evaluation.reproduction.cells import (
  Cell,
  Figure,
  Paper,
  Settings,
  half_unit,
)
from specjax.theory import speedup, toy_language

MEASURED_TOLERANCE = 0.15
COSTS = (0.01, 0.02, 0.05, 0.1, 0.2)  # of figure 3 and of the oracle
ERRORS = 4  # standard errors that a sampled figure may lie away
_LONGEST = 200  # drafts that a best length is looked for among
_VOCABULARY, _START, _GAMMA, _LENGTH = 4, 0, 3, 4  # of algorithm 1's joint law


def table_1(settings: Settings) -> Iterator[Cell]:
  """Arithmetic and speed at no draft cost, by theorems 3.11 and 3.8."""
  del settings
  for alpha, gamma, operations, speed in printed.TABLE_1:
    place = f"table 1, alpha {alpha}, gamma {gamma}"
    ours = float(speedup.operations_factor(alpha, gamma))
    yield Cell(
      f"{place}: operations", "formula", ours, operations, half_unit(2)
    )
    ours = float(speedup.speedup(alpha, gamma))
    yield Cell(f"{place}: speed", "formula", ours, speed, half_unit(2))


def tables_2_and_4(settings: Settings) -> Iterator[Cell]:
  """Theorem 3.8 beside the expected and the measured factors."""
  del settings
  for run in printed.RUNS:
    name = f"{run.task}, {run.draft}, T = {run.temperature}"
    ours = float(speedup.speedup(run.alpha, run.gamma, run.cost))
    low, high = _rounded(run)
    yield Cell(
      f"table 4, {name}: expected",
      "formula",
      ours,
      run.expected,
      half_unit(1),
      note=f"alpha and c are printed rounded: {low:.2f} to {high:.2f} by what"
      " they may have been",
    )
    yield Cell(
      f"table 2, {name}: speed",
      "formula",
      ours,
      run.measured,
      MEASURED_TOLERANCE,
      relative=True,
      note=f"a measured wall time beside theorem 3.8; table 4 itself expects"
      f" {run.expected}. Within 15 %",
    )


def _rounded(run: printed.Run) -> tuple[float, float]:
  """Least and largest factor of an alpha and a c that print as these."""
  alphas, costs = (
    (value - half_unit(2), value + half_unit(2))
    for value in (run.alpha, run.cost)
  )
  found = [
    float(speedup.speedup(alpha, run.gamma, cost))
    for alpha, cost in itertools.product(alphas, costs)
  ]
  return min(found), max(found)


def oracle(settings: Settings) -> Iterator[Cell]:
  """What stopping right before each refusal gains."""
  del settings
  alphas, costs = np.linspace(0.5, 0.98, 49)[:, None], np.asarray([COSTS])
  yield Cell(
    "section 3.5: what an oracle gains at most over the best gamma",
    "formula",
    float(np.max(speedup.oracle_gain(alphas, costs, _LONGEST))) - 1,
    printed.ORACLE_GAIN,
    0.05,
    note="printed as about; the largest over alpha to 0.98 and c from"
    f" {min(COSTS)} to {max(COSTS)}",
  )


def lower_bound(settings: Settings) -> Iterator[Cell]:
  """What some draft length gains wherever the draft is right often enough."""
  del settings
  alphas, costs = np.linspace(0.02, 0.98, 49)[:, None], np.asarray([COSTS])
  _, best = speedup.best_length(alphas, costs, _LONGEST)
  bound = speedup.speedup_lower_bound(alphas, costs)
  least = np.where(alphas > costs, np.asarray(best / bound), np.inf).min()
  yield Cell(
    "corollary 3.9: at least (1 + alpha) / (1 + c) where alpha > c (1 is yes)",
    "formula",
    float(least > 1 - 1e-5),
    1.0,
    0.0,
    note=f"best speedup over the bound: {least:.3f} at least, over alpha from"
    f" 0.02 to 0.98 and c from {min(COSTS)} to {max(COSTS)}",
  )


def bigram(settings: Settings) -> Iterator[Cell]:
  """A draft that costs nothing and is seldom right."""
  del settings
  alpha, gamma, factor = printed.BIGRAM
  yield Cell(
    "section 4.2, bigram draft of EnDe: speed",
    "formula",
    float(speedup.speedup(alpha, gamma)),
    factor,
    half_unit(2),
  )


def lenience(settings: Settings) -> Iterator[Cell]:
  """Factors that a lenient test buys, by theorem 3.8."""
  del settings
  cost, gamma = printed.LENIENT_COST, printed.LENIENT_GAMMA
  for value, (alpha, factor, decimals) in printed.LENIENT_SAMPLED.items():
    length, most = speedup.best_length(alpha, cost, _LONGEST)
    yield Cell(
      f"appendix A.5, T = 1, l = {value}: speed",
      "formula",
      float(most),
      factor,
      half_unit(decimals),
      note=f"the most that theorem 3.8 gives at the stated alpha and c, with"
      f" gamma {int(length)}: more than it does not follow",
    )
  for value, (alpha, factor) in printed.LENIENT_GREEDY.items():
    yield Cell(
      f"appendix A.5, T = 0, l = {value}: speed",
      "formula",
      float(speedup.speedup(alpha, gamma, cost)),
      factor,
      half_unit(1),
    )


def algorithm_1(settings: Settings) -> Iterator[Cell]:
  """The law of its output: enumerated, and sampled by the compiled loop."""
  rng = np.random.default_rng(settings.seed)
  p, q = rng.dirichlet(np.ones(_VOCABULARY), (2, _VOCABULARY))
  law = toy_language.joint_law(p, _START, _LENGTH)
  ours = chain_law.text_law(p, q, _START, _GAMMA, _LENGTH)
  yield Cell(
    "appendix A.1: distance of the output law from the target's",
    "formula",
    float(np.abs(ours - law).sum() / 2),
    0.0,
    1e-12,
    note="total variation over all texts of 4 tokens, by enumeration",
  )
  count = 20_000 if settings.quick else 200_000
  settings.say(f"leviathan2023: {count:,} samples of algorithm 1")
  loop = bigram_loop.Loop(p, q, Rejection(), _GAMMA)
  drawn = loop.run(
    count,
    _START,
    num_speculative_tokens=_GAMMA,
    length=_LENGTH,
    seed=settings.seed,
  )
  away = statistics.distance(drawn.codes(_VOCABULARY), law)
  error = (away.high - away.low) / (2 * 1.96)
  yield Cell(
    "appendix A.1: distance of the output law, sampled",
    "sampler",
    away.estimate,
    0.0,
    ERRORS * error,
    note=f"total variation that chance does not inflate, {count:,} texts of 4"
    " tokens; four standard errors",
  )


def table_1_sampled(settings: Settings) -> Iterator[Cell]:
  """Table 1 counted in rounds of the compiled loop.

  The laws are such that every context accepts with the same alpha, which is
  what the formulas assume.
  """
  settings.say("leviathan2023: table 1 by the compiled loop")
  for alpha, gamma, operations, speed in printed.TABLE_1:
    loop = bigram_loop.Loop(*even_laws(alpha), Rejection())
    drawn = loop.run(
      start=_START,
      num_speculative_tokens=gamma,
      seed=settings.seed,
      **bigram_loop.sizes_of(settings),
    )
    tokens = float(drawn.emitted.mean())
    error = float(drawn.emitted.std()) / math.sqrt(drawn.emitted.size)
    place = f"table 1 by the loop, alpha {alpha}, gamma {gamma}"
    note = f"{drawn.emitted.size:,} rounds; four standard errors"
    spent = (float(drawn.drafted.mean()) + 1) / tokens
    yield Cell(
      f"{place}: operations",
      "sampler",
      spent,
      operations,
      half_unit(2) + ERRORS * error * spent / tokens,
      note=note,
    )
    yield Cell(
      f"{place}: speed",
      "sampler",
      tokens,
      speed,
      half_unit(2) + ERRORS * error,
      note=note,
    )


def even_laws(
  alpha: float,
) -> tuple[Float[np.ndarray, "4 4"], Float[np.ndarray, "4 4"]]:
  """Laws of a target and a draft with sum min(p, q) = alpha in every context.

  Args:
    alpha: at least 0.5.
  """
  away = 1 - alpha
  target = np.asarray([0.5, 0.3, 0.15, 0.05])
  draft = target + np.asarray([-away, 0.0, away / 2, away / 2])
  rolls = range(len(target))
  return (
    np.stack([np.roll(target, i) for i in rolls]),
    np.stack([np.roll(draft, i) for i in rolls]),
  )


PARTS = (
  table_1,
  tables_2_and_4,
  oracle,
  lower_bound,
  bigram,
  lenience,
  algorithm_1,
  table_1_sampled,
)


def cells(settings: Settings) -> Iterator[Cell]:
  """All of them."""
  for part in PARTS:
    yield from part(settings)


def figures(settings: Settings) -> Iterator[Figure]:
  """Figures 2 to 4, and tables 2 and 4 as a picture."""
  del settings
  alphas = np.linspace(0.0, 0.99, 100)
  gammas = (1, 2, 3, 5, 7, 10)

  def by_gamma(formula):
    return {
      f"gamma = {gamma}": (alphas.tolist(), np.asarray(formula(gamma)).tolist())
      for gamma in gammas
    }

  yield Figure(
    "Figure 2: tokens a pass",
    "alpha",
    "expected tokens",
    by_gamma(lambda gamma: speedup.tokens_per_pass(alphas, gamma)),
  )
  usual = alphas[alphas <= 0.95]
  best = {
    f"c = {cost}": (
      usual.tolist(),
      np.asarray(speedup.best_length(usual, cost, _LONGEST)[0]).tolist(),
    )
    for cost in COSTS
  }
  yield Figure("Figure 3: the best gamma", "alpha", "gamma", best)
  points = {
    name: ([row[0] for row in printed.TABLE_1], [r[i] for r in printed.TABLE_1])
    for name, i in (("operations", 2), ("speed", 3))
  }
  yield Figure(
    "Figure 4: speed at no draft cost",
    "alpha",
    "factor",
    by_gamma(lambda gamma: speedup.speedup(alphas, gamma)),
    {"table 1": points["speed"]},
  )
  yield Figure(
    "Figure 4: arithmetic at no draft cost",
    "alpha",
    "factor",
    by_gamma(lambda gamma: speedup.operations_factor(alphas, gamma)),
    {"table 1": points["operations"]},
  )
  runs = printed.RUNS
  ours = [float(speedup.speedup(r.alpha, r.gamma, r.cost)) for r in runs]
  yield Figure(
    "Tables 2 and 4: measured and printed beside theorem 3.8",
    "theorem 3.8",
    "factor",
    {"equal": ([1.4, 3.5], [1.4, 3.5])},
    {
      "expected, as printed": (ours, [run.expected for run in runs]),
      "measured": (ours, [run.measured for run in runs]),
    },
  )


PAPER = Paper(
  "leviathan2023",
  "Fast Inference from Transformers via Speculative Decoding",
  "arXiv 2211.17192",
  cells,
  figures,
)
