"""The fields of a training's config, in parts."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from experiments import train_recipes
from experiments.train_parts import (
  Ends,
  Labels,
  Rows,
  Texts,
  Tried,
  content_of,
)
from experiments.train_recipes import KINDS, Recipe
from specjax.checkpoints.drafter_files import WEIGHTS
from specjax.drafters import shipped
from specjax.training.data import Labelling, Making
from specjax.training.evaluation import Trial
from specjax.training.optimizer import Optimizer
from specjax.training.plan import Plan


@dataclasses.dataclass(frozen=True)
class Settings:
  """A config, checked.

  Attributes:
    model, dtype: the target.
    recipe: what is trained.
    ends: from what, and how it is stored.
    texts, labels, rows, plan, trial: the stages' sizes.
    tried: what the drafter is tried on.
    smoke: whether the config's `in_smoke` stands in place of its fields.
  """

  model: str
  dtype: str | None
  recipe: Recipe
  ends: Ends
  texts: Texts
  labels: Labels
  rows: Rows
  plan: Plan
  trial: Trial
  tried: Tried
  smoke: bool

  @classmethod
  def of(cls, config: Mapping[str, Any], given: Mapping[str, Any]) -> Self:
    """Of a config's fields, with the flags that were given in their place.

    Raises:
      ValueError: an unknown field, one that is missing or out of range.
    """
    config = dict(config) | dict(given)
    smoke, changes = config.pop("smoke", False), config.pop("in_smoke", {})
    if smoke:
      config = changed(config, changes)
    sections = ("trainee", "data", "labels", "batches", "training", "optimizer")
    for name in (*sections, "evaluation"):
      if not isinstance(config.get(name), Mapping):
        raise ValueError(f"the config has no section {name!r}")
    known = {"model", "dtype", *sections, "evaluation"}
    if unknown := sorted(set(config) - known):
      raise ValueError(f"the config has the unknown field {unknown[0]!r}")
    trainee = dict(config["trainee"])
    ends = _taken(trainee, Ends)
    recipe = train_recipes.read(trainee)
    trial = dict(config["evaluation"])
    tried = _taken(trial, Tried)
    plan = dict(config["training"])
    optimizer = _make(Optimizer, "optimizer", config["optimizer"])
    settings = cls(
      model=config["model"],
      dtype=config.get("dtype"),
      recipe=recipe,
      ends=_make(Ends, "trainee", ends),
      texts=_texts(dict(config["data"]), config["model"]),
      labels=_labels(dict(config["labels"])),
      rows=_make(Rows, "batches", config["batches"]),
      plan=_make(Plan, "training", plan | {"optimizer": optimizer}),
      tried=_make(Tried, "evaluation", tried),
      trial=_make(Trial, "evaluation", trial),
      smoke=smoke,
    )
    settings.check()
    return settings

  def check(self) -> None:
    """Refuses what the parts cannot see alone.

    Raises:
      ValueError: with the fault.
    """
    parts = self.plan.micro_batches * self.rows.data_devices
    if self.rows.batch % parts:
      raise ValueError(
        f"a batch of {self.rows.batch} rows does not divide into"
        f" {self.plan.micro_batches} micro-batches over"
        f" {self.rows.data_devices} devices"
      )
    if (
      self.recipe.objective.name == "lk_lambda" and self.plan.micro_batches > 1
    ):
      raise ValueError(
        "lk_lambda weighs by the acceptance over a whole batch: set"
        " micro_batches to 1"
      )
    if self.texts.on_policy:
      self._check_on_policy()

  def _check_on_policy(self) -> None:
    recipe, share = self.recipe, self.texts.on_policy
    if not KINDS[recipe.kind].separate:
      raise ValueError(
        f"on_policy={share:g} needs a draft model, which can write alone:"
        f" {recipe.kind} cannot"
      )
    if self.ends.start is None:
      raise ValueError(
        f"on_policy={share:g} needs start: the drafter that writes the answers"
      )
    if recipe.objective.name == "sft":
      raise ValueError(
        f"on_policy={share:g} with the loss sft would learn the draft's own"
        " tokens: choose a loss of the target's laws"
      )

  def record(self) -> dict[str, Any]:
    """What a run's folder keeps and a rerun must match: no path, but contents.

    What only decides how long something takes is left out.
    """
    stated = dataclasses.asdict(self)
    texts, tried, ends = stated["texts"], stated["tried"], stated["ends"]
    for part, name in (
      (texts, "conversations"),
      (texts, "prompt_file"),
      (tried, "conversations"),
    ):
      part[name] = content_of(part[name])
    start = ends["start"]
    ends["start"] = content_of(start and str(Path(start) / WEIGHTS))
    for name in ("batch", "group"):
      (stated["texts"]["making"] or {}).pop(name, None)
    # A shared store gives the labels that were asked for, whatever else it has.
    labels = stated["labels"]
    stated["labels"] = dict(labels["labelling"]) | {"whole": labels["whole"]}
    for name in ("tokens_a_pass", "taps"):
      stated["labels"].pop(name)
    stated["trial"].pop("max_batch")
    return stated


def _taken(section: dict[str, Any], kind: type) -> dict[str, Any]:
  """Moves the fields of a part out of a section that has others too."""
  names = [field.name for field in dataclasses.fields(kind)]
  return {name: section.pop(name) for name in names if name in section}


def _texts(data: dict[str, Any], model: str) -> Texts:
  """Of the section: "shipped" is the model's own file, if it has one."""
  own = _taken(data, Texts)
  if own.get("conversations") == "shipped":
    made = shipped.conversations(model) if not own.get("prompt_file") else None
    own["conversations"] = None if made is None else str(made)
  elif own.get("conversations") == "made":
    own["conversations"] = None
  if own.get("conversations") is not None and not own.get("on_policy"):
    return Texts(**own)  # nothing is made
  return Texts(**own, making=_make(Making, "data", data))


def _labels(labels: dict[str, Any]) -> Labels:
  own = _taken(labels, Labels)
  return Labels(_make(Labelling, "labels", labels), **own)


def _make(kind: type, section: str, values: Mapping[str, Any]) -> Any:
  """A part of the settings from the fields of its section.

  Raises:
    ValueError: an unknown field, a missing one, or one out of range.
  """
  fields = {field.name: field for field in dataclasses.fields(kind)}
  if unknown := sorted(set(values) - set(fields)):
    raise ValueError(
      f"{section} of the config has the unknown field {unknown[0]!r}; known"
      f" are {', '.join(fields)}"
    )
  lists = {k: tuple(v) for k, v in values.items() if isinstance(v, list)}
  try:
    return kind(**{**values, **lists})
  except TypeError as error:
    raise ValueError(f"{section} of the config: {error}") from error


def changed(config: Mapping[str, Any], changes: Mapping[str, Any]):
  """The config with the changes, section by section."""
  changed = dict(config)
  for name, value in changes.items():
    if isinstance(value, Mapping):
      changed[name] = dict(config.get(name, {})) | dict(value)
    else:
      changed[name] = value
  return changed
