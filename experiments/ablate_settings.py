"""The arms of an ablation: what each changes of a recipe for training."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Self

from experiments.train_settings import Settings, changed

_OF_ARM = {"name", "recipe", "against", "curve"}
_FIELDS = {"recipes", "arms", "seeds", "files", "temperature", "smoke"}


@dataclasses.dataclass(frozen=True)
class Arm:
  """One way to train.

  Attributes:
    name: of its folder too.
    against: the arm that it is compared with.
    curve: arms of one curve differ in their data alone; None is on none.
    runs: settings by seed.
  """

  name: str
  against: str
  curve: str | None
  runs: Mapping[int, Settings]


@dataclasses.dataclass(frozen=True)
class Study:
  """A config, checked.

  Attributes:
    arms: all of them, in the config's order.
    chosen: names of those to train now.
    temperature: at which they are compared.
    smoke: whether the recipes are run in small.
  """

  arms: tuple[Arm, ...]
  chosen: tuple[str, ...]
  temperature: float
  smoke: bool

  @classmethod
  def of(
    cls, config: Mapping[str, Any], labels: str, chosen: Sequence[str] | None
  ) -> Self:
    """Of a config's fields; nothing is trained before all arms are sound.

    Args:
      config: recipes (configs of experiments.train by name), arms (in order, a
        dict each: name, recipe, against, curve, and sections with the fields
        that it changes), seeds (of the training), files ("@NAME" in an arm or
        recipe stands for its path), temperature and smoke.
      labels: folder of the labels, where a recipe names none.
      chosen: names of arms; None is all.

    Raises:
      ValueError: with the fault, and the arm that has it.
    """
    if unknown := sorted(set(config) - _FIELDS):
      raise ValueError(f"the config has the unknown field {unknown[0]!r}")
    smoke, seeds = bool(config.get("smoke", False)), tuple(config["seeds"])
    if not seeds or not config["arms"]:
      raise ValueError("an ablation needs an arm and a seed")
    names = [given["name"] for given in config["arms"]]
    if twice := sorted({name for name in names if names.count(name) > 1}):
      raise ValueError(f"two arms are called {twice[0]!r}")
    wanted = tuple(names if chosen is None else chosen)
    if unknown := [name for name in wanted if name not in names]:
      raise ValueError(
        f"there is no arm {unknown[0]!r}; there are {', '.join(names)}"
      )
    arms = [
      _arm(given, config, labels, smoke, seeds)
      for given in config["arms"]
      if given["name"] in wanted or _has_files(given, config)
    ]
    if unknown := [a.against for a in arms if a.against not in names]:
      raise ValueError(f"there is no arm {unknown[0]!r} to compare with")
    return cls(
      arms=tuple(arms),
      chosen=wanted,
      temperature=float(config.get("temperature", 1.0)),
      smoke=smoke,
    )


def _arm(
  given: Mapping[str, Any],
  config: Mapping[str, Any],
  labels: str,
  smoke: bool,
  seeds: tuple[int, ...],
) -> Arm:
  name = given["name"]
  try:
    recipe = _recipe(given, config, smoke)
    recipe["labels"] = {"folder": None} | dict(recipe["labels"])
    if recipe["labels"]["folder"] is None:
      recipe["labels"]["folder"] = labels
    runs = {}
    for seed in seeds:
      training = dict(recipe["training"]) | {"seed": seed}
      runs[seed] = Settings.of(recipe | {"training": training}, {})
      if runs[seed].ends.as_it_is:
        break  # no seed changes anything
  except ValueError as error:
    raise ValueError(f"arm {name}: {error}") from error
  against = given.get("against", config["arms"][0]["name"])
  return Arm(name, against, given.get("curve"), runs)


def _recipe(given, config, smoke: bool) -> dict[str, Any]:
  """The config of experiments.train of an arm.

  In smoke the recipe's small sizes come first, then what the arm changes.
  """
  recipes = config["recipes"]
  which = given.get("recipe", next(iter(recipes)))
  if which not in recipes:
    raise ValueError(f"there is no recipe {which!r}")
  recipe = {k: v for k, v in recipes[which].items()}
  small = recipe.pop("in_smoke", {})
  recipe.pop("smoke", None)
  if smoke:
    recipe = changed(recipe, small)
  changes = {k: v for k, v in given.items() if k not in _OF_ARM}
  return _with_files(changed(recipe, changes), config.get("files", {}))


def _with_files(value: Any, files: Mapping[str, str | None]) -> Any:
  """The same with paths in place of "@NAME".

  Raises:
    ValueError: a file that is not given.
  """
  if isinstance(value, Mapping):
    return {k: _with_files(v, files) for k, v in value.items()}
  if not isinstance(value, str) or not value.startswith("@"):
    return value
  name = value[1:]
  if files.get(name) is None:
    raise ValueError(f"it needs a file: give --config.files.{name}=PATH")
  return files[name]


def _has_files(given, config) -> bool:
  """Whether an arm that is not trained now could have been."""
  try:
    _recipe(given, config, False)
  except ValueError:
    return False
  return True
