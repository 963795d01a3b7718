"""The drafters at hand, with acceptance as given, recorded or assumed."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from specjax.evaluation import records
from specjax.evaluation.advice.outlook import Candidate
from specjax.evaluation.records import Mode
from specjax.evaluation.roofline import recorded
from specjax.evaluation.roofline.cases import SELF, Acceptance
from specjax.evaluation.roofline.question import Question


def build(
  asked: Question,
  settings: Mapping[str, Any],
  given: Sequence[str],
  *,
  copies: bool,
) -> list[Candidate]:
  """A candidate for each drafter of the question.

  Args:
    settings: fields of configs/roofline.py: `acceptance_from`, a run whose
      modes give theirs by drafter; `assumed`, for the rest.
    given: "name:rate" for one drafter, "rate" for all of them, of the first
      position; before what was recorded.
    copies: whether answers quote what they were given.

  Raises:
    ValueError: a rate that is none, or of no candidate.
  """
  rates = _parse(given, list(asked.drafters))
  runs = _recorded(settings["acceptance_from"])
  found = []
  for name in asked.drafters:
    acceptance, assumed = asked.case.acceptance, False
    if name in rates:
      acceptance = Acceptance(rates[name], acceptance.ratio)
    elif (kind := _recorded_as(name)) in runs:
      acceptance = Acceptance(recorded=runs[kind])
    else:
      first = float(settings["assumed"][_kind(name, copies)])
      acceptance, assumed = Acceptance(first, acceptance.ratio), True
    case = dataclasses.replace(asked.with_drafter(name), acceptance=acceptance)
    found.append(Candidate(case, assumed))
  return found


def _kind(name: str, copies: bool) -> str:
  """Under which name an acceptance is assumed."""
  if name == "ngram":
    return "lookup_on_copies" if copies else "lookup"
  if name == "head":
    return "head"
  return "self_draft" if name.startswith(SELF) else "model"


def _recorded_as(name: str) -> str:
  """The drafter by which records name such a candidate."""
  if name in ("ngram", "head") or name.startswith(SELF):
    return name
  return "model"


def _recorded(folder: str | None) -> dict[str, tuple[float, ...]]:
  """Rates by drafter: of its mode with the longest draft."""
  if folder is None:
    return {}
  answers = records.read(Path(folder))
  longest: dict[str, Mode] = {}
  for mode in records.modes(answers):
    seen = longest.get(mode.drafter)
    if (
      seen is None or mode.num_speculative_tokens > seen.num_speculative_tokens
    ):
      longest[mode.drafter] = mode
  runs = recorded.of_answers(answers)
  return {
    drafter: runs[mode.name]
    for drafter, mode in longest.items()
    if mode.name in runs
  }


def _parse(given: Sequence[str], names: Sequence[str]) -> dict[str, float]:
  rates: dict[str, float] = {}
  for text in given:
    name, _, rate = text.rpartition(":")
    try:
      value = float(rate)
    except ValueError:
      raise ValueError(
        f"acceptance is 0.75, or name:0.75 of a candidate, got {text!r}"
      ) from None
    if name and name not in names:
      raise ValueError(
        f"acceptance of {name!r}, which is no candidate: {', '.join(names)}"
      )
    rates.update(dict.fromkeys([name] if name else names, value))
  return rates
