"""Whose acceptance a run recorded: its drafters, by the names that cost them.

An acceptance is of one drafter on one target. What a run recorded is never
charged at the cost of another.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from specjax.evaluation import records
from specjax.evaluation.records import Answer, Mode
from specjax.evaluation.roofline import cases, recorded, trained_drafts
from specjax.models.config import DecoderConfig
from specjax.models.presets import preset
from specjax.theory import shapes

# These cost the same for every target.
_FREE = ("ngram",)


@dataclasses.dataclass(frozen=True)
class Drafted:
  """A mode of a run that drafted.

  Attributes:
    draft: as `cases.drafter_of` names what drafted; None where the record does
      not say in a way that its cost can be told from.
    said: the record's own words for it.
    rates: conditional acceptance by position; see `recorded.rates`.
  """

  mode: Mode
  draft: str | None
  said: str
  rates: tuple[float, ...]


@dataclasses.dataclass(frozen=True)
class Run:
  """What a run says of acceptance.

  Attributes:
    folder: as it was given.
    categories: the classes of prompts that were asked for; empty is all.
    answers: of these.
    target: name of the model that all of them are by; None where they differ.
    modes: those that drafted enough.
  """

  folder: str
  categories: tuple[str, ...]
  answers: tuple[Answer, ...]
  target: str | None
  modes: tuple[Drafted, ...]

  def choose(self, mode: str | None, draft: str | None = None) -> Drafted:
    """The mode named, or the only one, or the only one of a drafter.

    Raises:
      ValueError: none, or several; a drafter that is not the mode's.
    """
    fits = [
      one for one in self.modes if draft is None or self._may_be(one, draft)
    ]
    if mode is None and len(fits) == 1:
      return fits[0]
    for one in self.modes:
      if one.mode.name == mode:
        if one not in fits:
          raise ValueError(
            f"{mode} was drafted by {one.said}: its acceptance does not go with"
            f" the cost of {draft}"
          )
        return one
    if mode is None and not fits:
      raise ValueError(
        f"{draft} drafted in no mode of {self.folder}, whose acceptance does"
        f" not go with its cost: {self._said()}"
      )
    asked = "name a" if mode is None else f"no {mode!r}: name a"
    names = ", ".join(one.mode.name for one in fits or self.modes)
    raise ValueError(f"{asked} mode of the run: {names}")

  def longest(self, draft: str) -> Drafted | None:
    """The mode with a drafter's longest draft; lossy ones and peers' apart."""
    fits = [
      one
      for one in self.modes
      if one.draft is not None
      and same(one.draft, draft)
      and one.mode.lossless is not False
      and one.mode.system == "specjax"
    ]
    lengths = [one.mode.num_speculative_tokens for one in fits]
    return fits[lengths.index(max(lengths))] if fits else None

  def drafts(self) -> list[str]:
    """Names of the drafters whose cost is known, each once.

    Raises:
      ValueError: there is none.
    """
    found: list[str] = []
    for one in self.modes:
      if one.draft and not any(same(one.draft, name) for name in found):
        found.append(one.draft)
    if not found:
      raise ValueError(
        f"no drafter of {self.folder} has a cost that is known here:"
        f" {self._said()}"
      )
    return found

  def target_for(self, given: str | None, draft: str | None) -> str:
    """The target's name: the run's, or one given that is of its sizes.

    Args:
      given: None takes the run's.
      draft: what drafts; lookup may go with any target.

    Raises:
      ValueError: the run's is not known, or another was given.
    """
    own = None if self.target is None else _sizes(self.target)
    if given is None:
      if own is None or self.target is None:
        raise ValueError(
          f"the sizes of {self.target or 'the targets'} in {self.folder} are"
          " not known here: give --target"
        )
      return self.target
    if draft in _FREE or own is None:
      return given
    if shapes.shape_of(cases.sizes_of(given)) != shapes.shape_of(own):
      raise ValueError(
        f"the acceptance in {self.folder} is of {self.target}: it does not go"
        f" with the target {given}"
      )
    return given

  def _may_be(self, one: Drafted, draft: str) -> bool:
    """A drafter that the record does not tell is what the caller says."""
    return one.draft is None or same(one.draft, draft)

  def _said(self) -> str:
    return ", ".join(f"{one.mode.name} ({one.said})" for one in self.modes)


def read(
  folder: str, categories: Sequence[str] = (), given: str | None = None
) -> Run:
  """Of a run's folder.

  Args:
    categories: classes of prompts; of these, answers whose beginning was given
      are left out. None is all answers.
    given: name of a target, for a run whose own is not known here.

  Raises:
    ValueError: no records, no mode that drafted enough, an unknown class.
  """
  answers = tuple(_of_classes(records.read(Path(folder)), categories))
  rates = recorded.of_answers(answers)
  if not rates:
    raise ValueError(
      f"no mode in {folder} judged a position in {recorded.LEAST_JUDGED} rounds"
    )
  targets = {answer.environment.get("model") for answer in answers}
  target = targets.pop() if len(targets) == 1 else None
  sizes = None if target is None else _sizes(target)
  if sizes is None and given is not None:
    sizes = cases.sizes_of(given)
  modes = [
    Drafted(mode, *_drafter_of(mode, sizes), rates[mode.name])
    for mode in records.modes(answers)
    if mode.name in rates
  ]
  return Run(folder, tuple(categories), answers, target, tuple(modes))


def same(a: str, b: str) -> bool:
  """Whether two names are of one drafter."""
  return _identity(a) == _identity(b)


def _of_classes(
  answers: Sequence[Answer], categories: Sequence[str]
) -> list[Answer]:
  if not categories:
    return list(answers)
  known = list(dict.fromkeys(answer.category for answer in answers))
  for name in categories:
    if name not in known:
      raise ValueError(
        f"no answer is of the class {name!r}; there are"
        f" {', '.join(map(repr, known))}"
      )
  return [a for a in answers if a.category in categories and not a.begun]


def _drafter_of(
  mode: Mode, target: DecoderConfig | None
) -> tuple[str | None, str]:
  """(its name for `cases.drafter_of` where that is known, in words)."""
  options: Mapping[str, Any] = mode.options
  layers, model = options.get("draft_layers"), options.get("draft_model")
  if mode.drafter in _FREE:
    return mode.drafter, mode.drafter
  if layers is not None:
    name = f"{cases.LAYERS}{layers}"
  elif model is not None:
    name = str(model)
  else:
    return None, mode.drafter
  if target is None:
    return name, name
  try:
    cases.drafter_of(name, target)
  except ValueError:
    return None, f"{mode.drafter} of {name}"
  return name, name


def _identity(name: str) -> Any:
  """Equal for two names of one drafter."""
  try:
    if (folder := trained_drafts.find(name)) is not None:
      return folder
    if not Path(name).exists():
      return preset(name.rpartition("/")[2])
  except ValueError:
    return name
  return Path(name).resolve()


def _sizes(name: str) -> DecoderConfig | None:
  try:
    return cases.sizes_of(name)
  except ValueError:
    return None
