"""The fields of a training's config, in parts."""

import dataclasses
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from experiments import train_recipes
from experiments.train_recipes import Recipe
from specjax.checkpoints.drafter_files import CONFIG, STORAGES, WEIGHTS
from specjax.training.data import Labelling, Making
from specjax.training.evaluation import Trial
from specjax.training.optimizer import Optimizer
from specjax.training.plan import Plan


@dataclasses.dataclass(frozen=True)
class Texts:
  """Where the conversations come from: one of three.

  Attributes:
    conversations: a file of them, JSONL or packed (.npz), taken as it is.
    prompt_file: JSONL of prompts, which the target answers.
    making: how the target makes them: where neither file is given it writes
      the queries itself. None with `conversations`.
    held_out: share of prompts that are kept from training.
  """

  conversations: str | None = None
  prompt_file: str | None = None
  making: Making | None = None
  held_out: float = 0.05

  def __post_init__(self):
    if self.conversations is not None and self.prompt_file is not None:
      raise ValueError("data has conversations or a prompt_file, not both")
    if not 0 < self.held_out < 1:
      raise ValueError(f"held_out must be inside (0, 1), got {self.held_out}")
    for path in (self.conversations, self.prompt_file):
      if path is not None and not Path(path).is_file():
        raise ValueError(f"there is no file {path}")


@dataclasses.dataclass(frozen=True)
class Rows:
  """Sizes of a batch, and the devices that it is cut over.

  Attributes:
    batch, length: rows of a batch and tokens of a row; see `data.batches`.
    held_out: batches at most that are judged at every evaluation.
    data_devices, model_devices: sizes of the mesh.
  """

  batch: int = 8
  length: int = 256
  held_out: int = 8
  data_devices: int = 1
  model_devices: int = 1

  def __post_init__(self):
    for name, value in vars(self).items():
      if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")


@dataclasses.dataclass(frozen=True)
class Ends:
  """What a training starts from, and how its drafter is stored.

  Attributes:
    start: folder of a trained drafter of the same kind and sizes, whose weights
      and vocabulary are taken over; None starts as the kind does.
    storage: of the drafter's matrices, one of `drafter_files.STORAGES`.
  """

  start: str | None = None
  storage: str = "float32"

  def __post_init__(self):
    if self.storage not in STORAGES:
      raise ValueError(
        f"storage must be one of {', '.join(STORAGES)}, got {self.storage!r}"
      )
    if self.start is not None and not (Path(self.start) / CONFIG).is_file():
      raise ValueError(f"{self.start} is no folder of a trained drafter")


@dataclasses.dataclass(frozen=True)
class Settings:
  """A config, checked.

  Attributes:
    model, dtype: the target.
    recipe: what is trained.
    ends: from what, and how it is stored.
    texts, labelling, rows, plan, trial: the stages' sizes.
    prompts: held-out prompts that the drafter is tried on.
    num_speculative_tokens: of the chain that it is tried with.
    smoke: whether the config's `in_smoke` stands in place of its fields.
  """

  model: str
  dtype: str | None
  recipe: Recipe
  ends: Ends
  texts: Texts
  labelling: Labelling
  rows: Rows
  plan: Plan
  trial: Trial
  prompts: int
  num_speculative_tokens: int
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
      config = _changed(config, changes)
    sections = ("trainee", "data", "labels", "batches", "training", "optimizer")
    for name in (*sections, "evaluation"):
      if not isinstance(config.get(name), Mapping):
        raise ValueError(f"the config has no section {name!r}")
    known = {"model", "dtype", *sections, "evaluation"}
    if unknown := sorted(set(config) - known):
      raise ValueError(f"the config has the unknown field {unknown[0]!r}")
    trainee = dict(config["trainee"])
    ends = {k: trainee.pop(k) for k in ("start", "storage") if k in trainee}
    recipe = train_recipes.read(trainee)
    data, tried = dict(config["data"]), dict(config["evaluation"])
    plan = dict(config["training"])
    optimizer = _make(Optimizer, "optimizer", config["optimizer"])
    settings = cls(
      model=config["model"],
      dtype=config.get("dtype"),
      recipe=recipe,
      ends=_make(Ends, "trainee", ends),
      texts=_texts(data),
      labelling=_make(Labelling, "labels", config["labels"]),
      rows=_make(Rows, "batches", config["batches"]),
      plan=_make(Plan, "training", plan | {"optimizer": optimizer}),
      prompts=_at_least_one("prompts", tried.pop("prompts", 16)),
      num_speculative_tokens=_at_least_one(
        "num_speculative_tokens", tried.pop("num_speculative_tokens", 4)
      ),
      trial=_make(Trial, "evaluation", tried),
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

  def record(self) -> dict[str, Any]:
    """What a run's folder keeps and a rerun must match: no path, but contents.

    What only decides how long something takes is left out.
    """
    stated = dataclasses.asdict(self)
    for name in ("conversations", "prompt_file"):
      if (path := stated["texts"][name]) is not None:
        content = Path(path).read_bytes()
        stated["texts"][name] = hashlib.sha256(content).hexdigest()[:12]
    if (start := stated["ends"]["start"]) is not None:
      content = (Path(start) / WEIGHTS).read_bytes()
      stated["ends"]["start"] = hashlib.sha256(content).hexdigest()[:12]
    for name in ("batch", "group"):
      (stated["texts"]["making"] or {}).pop(name, None)
    stated["labelling"].pop("tokens_a_pass")
    stated["trial"].pop("max_batch")
    return stated


def _texts(data: dict[str, Any]) -> Texts:
  names = ("conversations", "prompt_file", "held_out")
  own = {name: data.pop(name) for name in names if name in data}
  if own.get("conversations") is not None:
    return Texts(**own)  # nothing is made
  return Texts(**own, making=_make(Making, "data", data))


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


def _at_least_one(name: str, value: int) -> int:
  if value < 1:
    raise ValueError(f"{name} must be at least 1, got {value}")
  return value


def _changed(config: Mapping[str, Any], changes: Mapping[str, Any]):
  """The config with the changes, section by section."""
  changed = dict(config)
  for name, value in changes.items():
    if isinstance(value, Mapping):
      changed[name] = dict(config.get(name, {})) | dict(value)
    else:
      changed[name] = value
  return changed
