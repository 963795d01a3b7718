"""Answers of a mode beside those of its baseline to the same questions."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from specjax.evaluation.figures import statistics
from specjax.evaluation.records import Answer, Mode

Pair = tuple[Answer, Answer]
Place = tuple[str, int, int]  # question, turn, repeat


def baseline(mode: Mode, modes: Iterable[Mode]) -> Mode | None:
  """Plain decoding by specjax at the mode's law; None where it was not run."""
  for other in modes:
    if other.is_plain and other.system == "specjax" and other.law == mode.law:
      return other
  return None


def join(a: Iterable[Answer], b: Iterable[Answer]) -> list[Pair]:
  """Answers of both to one question, turn and repeat, in the order of `a`."""
  other = {_place(answer): answer for answer in b}
  return [(x, other[_place(x)]) for x in a if _place(x) in other]


def speedup(pairs: Sequence[Pair]) -> statistics.Speedup | None:
  """Of the first over the second; None where no question can be compared."""
  sums = list(work(pairs).values())
  if not sums:
    return None
  a_tokens, a_seconds, b_tokens, b_seconds = np.stack(sums, 1).tolist()
  return statistics.speedup(a_tokens, a_seconds, b_tokens, b_seconds)


def work(pairs: Sequence[Pair]) -> dict[str, Float[np.ndarray, "4"]]:
  """{question: (tokens, seconds of decoding) of the first, then the second}.

  Summed over the question's turns and repeats. A question without tokens or
  seconds on a side is left out.
  """
  sums: dict[str, np.ndarray] = {}
  for a, b in pairs:
    row = [a.new_tokens, a.decode_s, b.new_tokens, b.decode_s]
    before = sums.get(a.question_id, np.zeros(4))
    sums[a.question_id] = before + np.asarray(row, np.float64)
  return {name: row for name, row in sums.items() if (row > 0).all()}


def identity(
  pairs: Sequence[Pair],
  within: Collection[tuple[str, str, int, int]] | None = None,
  near_ties: Collection[Place] | None = None,
) -> dict[str, Any] | None:
  """Whether token ids are equal, where they have to be.

  They have to be in greedy decoding, and at any temperature where both used the
  exact-match rule and one seed. A later turn is compared only where all turns
  before it were equal: else its prompt is another.

  Args:
    within: keys of the first answers to count; all where None.
    near_ties: answers whose first difference is a near-tie; None where nobody
      looked, for a record does not hold logits.

  Returns:
    None where nothing has to be equal; else
    compared, equal: answers.
    tokens: compared, each answer up to its first difference and with it.
    first_difference: {question_id, turn, repeat, index} of each that differs;
      index is the first differing token, or where the shorter answer ends.
    near_ties: how many of these; None where nobody looked.
  """
  same: set[Place] = set()
  differences, ties, compared, tokens, comparable = [], 0, 0, 0, False
  for a, b in sorted(pairs, key=lambda pair: pair[0].turn):
    if not _must_be_equal(a, b):
      continue
    comparable = True
    question, turn, repeat = _place(a)
    if not all((question, before, repeat) in same for before in range(turn)):
      continue
    index = first_difference(a.token_ids, b.token_ids)
    if index is None:
      same.add(_place(a))
    if within is not None and a.key not in within:
      continue
    compared += 1
    tokens += a.new_tokens if index is None else index + 1
    if index is not None:
      ties += near_ties is not None and _place(a) in near_ties
      place = {"question_id": question, "turn": turn, "repeat": repeat}
      differences.append({**place, "index": index})
  if not comparable:
    return None
  return {
    "compared": compared,
    "equal": compared - len(differences),
    "tokens": tokens,
    "first_difference": differences,
    "near_ties": None if near_ties is None else ties,
  }


def first_difference(a: Sequence[int], b: Sequence[int]) -> int | None:
  """Index of the first token that differs or that one lacks; None if equal."""
  for index, (x, y) in enumerate(zip(a, b, strict=False)):
    if x != y:
      return index
  return None if len(a) == len(b) else min(len(a), len(b))


def _place(answer: Answer) -> Place:
  return answer.question_id, answer.turn, answer.repeat


def _must_be_equal(a: Answer, b: Answer) -> bool:
  if a.mode.law != b.mode.law:
    return False
  if a.mode.temperature == 0:
    return True
  exact = a.mode.rule == b.mode.rule == "exact_match"
  return exact and a.seed == b.seed
