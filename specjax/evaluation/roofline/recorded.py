"""Acceptance of measured runs, as the roofline takes it."""

from collections.abc import Sequence
from pathlib import Path

from specjax.evaluation import records
from specjax.evaluation.figures.pooling import pool
from specjax.evaluation.records import Answer

LEAST_JUDGED = 20  # rounds; the share of fewer says nothing


def read(folder: Path) -> dict[str, tuple[float, ...]]:
  """Conditional acceptance by position of each mode of a run that drafted.

  Raises:
    ValueError: no records, or none of a mode that drafted enough.
  """
  found = of_answers(records.read(folder))
  if not found:
    raise ValueError(
      f"no mode in {folder} judged a position in {LEAST_JUDGED} rounds"
    )
  return found


def of_answers(answers: Sequence[Answer]) -> dict[str, tuple[float, ...]]:
  """The same of answers; see `rates`."""
  found = {
    mode.name: rates([a for a in answers if a.mode.name == mode.name])
    for mode in records.modes(answers)
  }
  return {name: values for name, values in found.items() if values}


def rates(answers: Sequence[Answer]) -> tuple[float, ...]:
  """Of one mode: up to the first position that too few rounds judged.

  The roofline drafts in every round. Rounds in which a drafter proposed nothing
  count as refusals of position 1: their tokens are right, and their passes are
  charged at the full width.
  """
  known = [answer for answer in answers if answer.rounds]
  if not known:
    return ()
  pooled = pool(known)
  if not pooled["drafted"]:
    return ()
  found: list[float] = []
  pairs = zip(
    pooled["acceptance_per_position_conditional"],
    pooled["judged_per_position"],
    strict=True,
  )
  for rate, judged in pairs:
    if judged < LEAST_JUDGED:
      break
    found.append(float(rate))
  if found:
    found[0] *= pooled["drafting_rounds"] / pooled["rounds"]
  return tuple(found)
