"""Tokens of a round from acceptance by position, with their interval."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from specjax import metrics
from specjax.evaluation.figures import statistics
from specjax.evaluation.records import Answer


def count(answers: Sequence[Answer], gamma: int) -> Float[np.ndarray, "P N"]:
  """Of each prompt: rounds, rounds that drafted, then kept and judged by place.

  Turns and repeats are summed.
  """
  by_prompt: dict[str, list[Sequence[int]]] = {}
  for answer in answers:
    by_prompt.setdefault(answer.question_id, []).extend(answer.rounds)
  rows = []
  for history in by_prompt.values():
    rates, judged = metrics.judged(history, gamma)
    each = [
      round((rate or 0.0) * seen)
      for rate, seen in zip(rates, judged, strict=True)
    ]
    drafting = sum(drafted > 0 for drafted, *_ in history)
    rows.append([len(history), drafting, *each, *judged])
  return np.asarray(rows, np.float64)


def kept(counts: Float[np.ndarray, "*b N"]) -> Float[np.ndarray, "*b G"]:
  """Unconditional acceptance by position of summed counts.

  As `recorded.rates` has it, but with every position; one that was never judged
  is never kept.
  """
  gamma = (counts.shape[-1] - 2) // 2
  held, judged = counts[..., 2 : 2 + gamma], counts[..., 2 + gamma :]
  rates = held / np.maximum(judged, 1)
  drafting = counts[..., 1] / np.maximum(counts[..., 0], 1)
  return drafting[..., None] * np.cumprod(rates, -1)


def per_round(
  counts: Float[np.ndarray, "P N"],
) -> statistics.Estimate:
  """Tokens of a round that drafts, with an interval over prompts.

  The interval bootstraps the prompts' influences on its logarithm, which are
  those of the jackknife.

  Args:
    counts: of each prompt: rounds, rounds that drafted, rounds that kept
      position 1, 2, ..., rounds that judged it.
  """

  def log(sums: Float[np.ndarray, "*b N"]) -> Float[np.ndarray, "*b"]:
    return np.asarray(np.log1p(kept(sums).sum(-1)))

  whole = counts.sum(0)
  without = log(whole - counts)
  influences = (len(counts) - 1) * (without.mean() - without)
  return statistics.geometric_mean(np.exp(log(whole) + influences))
