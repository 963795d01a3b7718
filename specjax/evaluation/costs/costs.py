"""What a round is made of: seconds of a target pass and of drafting.

The parts of a round cannot be timed inside one device loop, so each is measured
by calls of its own, of which a run takes one of every kind between two answers.
A prediction is the sum over the rounds that were run of those two parts alone;
what a round costs beyond it is bookkeeping.
"""

import dataclasses
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from specjax.evaluation.costs.cost_sampler import Sampler, Subject, make_subject

FILE = "costs.jsonl"
Rounds = Iterable[Sequence[int]]

# Seconds. What is shorter is lost in the noise of a call.
_LEAST = 1e-9


@dataclasses.dataclass(frozen=True)
class Costs:
  """Medians of measured parts, in seconds; of one mode, one row.

  Attributes:
    passes: {width: {context: seconds}} of the target on so many slots against
      a cache of so many tokens, all slots read out.
    drafts: {behind: {drafted: {context: seconds}}} of all that the drafter does
      in a round with that budget: it proposes, and observes what was kept.
      `behind` is after a round that kept every node, whose last one a draft
      model has not fed yet.
  """

  passes: dict[int, dict[int, float]]
  drafts: dict[bool, dict[int, dict[int, float]]]

  @classmethod
  def from_samples(cls, lines: Iterable[dict[str, Any]], mode: str) -> "Costs":
    """Of the lines of `Sampler.sample`, those of one mode and of all passes.

    Raises:
      ValueError: no pass was measured, or no drafting of that mode.
    """
    seen: dict[tuple, list[float]] = {}
    for line in lines:
      if line["part"] == "pass":
        key = ("pass", line["width"], line["context"])
      elif line["part"] == "draft" and line["mode"] == mode:
        key = (line["behind"], line["drafted"], line["context"])
      else:
        continue
      seen.setdefault(key, []).append(line["seconds"])
    ran: dict[int, dict[int, float]] = {}
    drafts: dict[bool, dict[int, dict[int, float]]] = {}
    for (kind, size, context), values in sorted(
      seen.items(), key=lambda item: (str(item[0][0]), *item[0][1:])
    ):
      table = ran if kind == "pass" else drafts.setdefault(kind, {})
      table.setdefault(size, {})[context] = max(
        statistics.median(values), _LEAST
      )
    if not ran or not drafts:
      raise ValueError(f"no costs were measured of mode {mode!r}")
    return cls(ran, drafts)

  def pass_seconds(self, width: int, context: int) -> float:
    """Of a target pass; between measured contexts a straight line, level
    outside them.

    Raises:
      ValueError: a width that was not measured.
    """
    if width not in self.passes:
      raise ValueError(f"no pass of {width} slots was measured")
    return _line(self.passes[width], context)

  def draft_seconds(
    self, drafted: int, context: int, behind: bool = False
  ) -> float:
    """Of drafting; between measured counts and contexts a straight line."""
    by_count = self.drafts.get(behind) or self.drafts[False]
    at = {count: _line(line, context) for count, line in by_count.items()}
    return _line(at, drafted)

  def draft_step_seconds(self, context: int) -> float:
    """Of one more drafted token: the slope from one token to the most."""
    most = max(self.drafts[False])
    if most < 2:
      return self.draft_seconds(most, context)
    steps = self.draft_seconds(most, context) - self.draft_seconds(1, context)
    return steps / (most - 1)

  def c(self, context: int) -> float:
    """Draft step time over target step time (Leviathan et al. 2023, 3.3)."""
    return self.draft_step_seconds(context) / self.pass_seconds(1, context)


def predict_seconds(rounds: Rounds, costs: Costs, prompt_tokens: int) -> float:
  """Drafting and target passes of the rounds that were run, nothing else.

  Args:
    rounds: (drafted, accepted, emitted, width) of each, in order.
    costs: of the mode that ran them.
    prompt_tokens: committed before the first of them.
  """
  total, context, behind = 0.0, prompt_tokens, False
  for drafted, accepted, emitted, width in rounds:
    total += costs.draft_seconds(drafted, context, behind)
    total += costs.pass_seconds(width, context)
    behind = accepted == drafted > 0
    context += emitted
  return total


def bookkeeping(
  lines: Iterable[dict[str, Any]], costs: Costs, mode: str
) -> float | None:
  """Share of a mode's rounds that is neither drafting nor target pass.

  Of the median over its measured rounds; None where none were measured.
  """
  shares = [
    1 - predict_seconds(x["rounds"], costs, x["context"]) / x["seconds"]
    for x in lines
    if x["part"] == "round" and x["mode"] == mode
  ]
  return statistics.median(shares) if shares else None


def _line(points: dict[int, float], at: int) -> float:
  """Straight lines between the points, level outside them."""
  x = sorted(points)
  return float(np.interp(at, x, [points[i] for i in x]))


__all__ = [
  "FILE",
  "Costs",
  "Sampler",
  "Subject",
  "bookkeeping",
  "make_subject",
  "predict_seconds",
]
