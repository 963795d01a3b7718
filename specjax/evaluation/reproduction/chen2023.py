"""Chen et al. 2023: speedups from the printed times, and what they imply."""

from collections.abc import Iterator

import numpy as np

from specjax.evaluation.reproduction.cells import (
  Cell,
  Figure,
  Paper,
  Settings,
  half_unit,
)
from specjax.theory import speedup

TARGET_MS, DRAFT_MS, GAMMA = 14.1, 1.8, 4
COST = DRAFT_MS / TARGET_MS
# Task: printed ms a token, printed speedup.
TASKS = {
  "XSum, nucleus 0.8": (7.52, 1.92),
  "XSum, greedy": (7.00, 2.01),
  "HumanEval, nucleus 0.95": (5.73, 2.46),
}
BEST_LENGTH = 3.0  # on XSum, figure 1


def _implied(milliseconds: float) -> tuple[float, float]:
  """(tokens a pass, alpha) at which K = 4 takes so long a token."""
  factor = TARGET_MS / milliseconds
  tokens = speedup.tokens_of_speedup(factor, GAMMA, COST)
  return float(tokens), float(speedup.acceptance_of_tokens(tokens, GAMMA))


def cells(settings: Settings) -> Iterator[Cell]:
  """Table 1, then what its times imply at c = 1.8 / 14.1."""
  del settings
  for task, (milliseconds, printed) in TASKS.items():
    # All times at once: K = 4 drafts and a pass as the target's own.
    ours = speedup.speedup_of_times(1, 0, 0, milliseconds, TARGET_MS)
    note = "printed ms of the two, divided"
    if abs(float(ours) - printed) > half_unit(2):
      note += ": the printed speedup is not the quotient of the printed times"
    place = f"table 1, {task}"
    yield Cell(
      f"{place}: speedup", "formula", float(ours), printed, 0.005, note=note
    )
    tokens, alpha = _implied(milliseconds)
    note = "from theorem 3.8 at the printed times, a pass of K + 1 as one of 1"
    yield Cell(
      f"{place}: tokens a pass", "formula", tokens, None, 0.0, note=note
    )
    yield Cell(f"{place}: alpha", "formula", alpha, None, 0.0, note=note)
    best, most = speedup.best_length(alpha, COST, 16)
    short = 1 - float(speedup.speedup(alpha, BEST_LENGTH, COST) / most)
    xsum = task.startswith("XSum")
    yield Cell(
      f"figure 1, {task}: best K",
      "formula",
      float(best),
      BEST_LENGTH if xsum else None,
      0.5,
      note=(
        f"at the implied alpha {alpha:.2f}, constant over positions; K 3 is"
        f" {short:.1%} short of it, and real acceptance falls with position"
      ),
    )


def figures(settings: Settings) -> Iterator[Figure]:
  """Time a token by draft length, as figure 1 shows it."""
  del settings
  lengths = np.arange(9.0)
  curves, printed = {}, {}
  for task, (milliseconds, _) in TASKS.items():
    alpha = _implied(milliseconds)[1]
    times = TARGET_MS / np.asarray(speedup.speedup(alpha, lengths, COST))
    curves[task] = (lengths.tolist(), times.tolist())
    printed[f"table 1, {task}"] = ([float(GAMMA)], [milliseconds])
  yield Figure(
    "Time a token at the alpha that table 1 implies",
    "K",
    "ms a token",
    curves,
    printed,
  )


PAPER = Paper(
  "chen2023",
  "Accelerating Large Language Model Decoding with Speculative Sampling",
  "arXiv 2302.01318",
  cells,
  figures,
)
