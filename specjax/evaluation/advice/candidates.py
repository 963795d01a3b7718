"""The drafters at hand, with acceptance as given, recorded or assumed."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from specjax.evaluation.advice.outlook import Candidate
from specjax.evaluation.roofline import of_run
from specjax.evaluation.roofline.cases import SELF, Acceptance
from specjax.evaluation.roofline.question import Question
from specjax.theory.rounds import Drafter


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
      modes give the acceptance of their own drafters; `assumed`, for the rest.
    given: "name:rate" for one drafter, "rate" for all of them, of the first
      position; before what was recorded.
    copies: whether answers quote what they were given.

  Raises:
    ValueError: a rate that is none, or of no candidate.
  """
  rates = _parse(given, list(asked.drafters))
  run = None if settings["acceptance_from"] is None else _run(settings)
  found = []
  for name in asked.drafters:
    acceptance, assumed = asked.case.acceptance, False
    if name in rates:
      acceptance = Acceptance(rates[name], acceptance.ratio)
    elif run is not None and (one := run.longest(name)) is not None:
      acceptance = Acceptance(recorded=one.rates)
    else:
      kind = _kind(name, asked.drafters[name], copies)
      first = float(settings["assumed"][kind])
      acceptance, assumed = Acceptance(first, acceptance.ratio), True
    case = dataclasses.replace(asked.with_drafter(name), acceptance=acceptance)
    found.append(Candidate(case, assumed))
  return found


def complete(settings: Mapping[str, Any]) -> dict[str, Any]:
  """The settings with a run's own target and drafters where None is given.

  Raises:
    ValueError: no such run, another target than its, or no candidate of it.
  """
  settings = dict(settings)
  if settings["acceptance_from"] is None:
    return settings
  run = _run(settings)
  names = settings["candidates"]
  names = run.drafts() if names is None else list(names)
  known = [name for name in names if run.longest(name) is not None]
  if not known:
    raise ValueError(
      f"no candidate of {', '.join(names)} drafted losslessly in {run.folder},"
      f" whose drafters are {', '.join(run.drafts())}"
    )
  given = settings["target"]
  targets = [run.target_for(given, name) for name in known]
  return {**settings, "candidates": names, "target": targets[0]}


def _run(settings: Mapping[str, Any]) -> of_run.Run:
  return of_run.read(
    settings["acceptance_from"], settings["categories"], settings["target"]
  )


def _kind(name: str, drafter: Drafter, copies: bool) -> str:
  """Under which name an acceptance is assumed."""
  if name == "ngram":
    return "lookup_on_copies" if copies else "lookup"
  if name.startswith(SELF):
    return "self_draft"
  one_layer = drafter.model is not None and drafter.model.num_layers == 1
  return "head" if drafter.once is not None or one_layer else "model"


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
