"""How the ablations of configs/ablate are put together."""

from collections.abc import Mapping, Sequence
from typing import Any

from ml_collections import config_dict


def study(
  *,
  recipes: Mapping[str, config_dict.ConfigDict],
  arms: Sequence[Mapping[str, Any]],
  files: Sequence[str],
  model: str | None = None,
  seeds: Sequence[int] = (0, 1, 2),
) -> config_dict.ConfigDict:
  """A config of experiments.ablate_settings.Study.

  Args:
    recipes: configs of experiments.train by name.
    arms: name, recipe, against, curve, and sections with what is changed.
    files: names that "@NAME" in recipes and arms stands for; their paths are
      given as --config.files.NAME.
    model: target of all recipes, "@NAME" too.
    seeds: of the training.
  """
  made = {}
  for name, recipe in recipes.items():
    # In turns of small ones: many runs, each judged by the same texts.
    recipe.evaluation.update(
      temperatures=(1.0,), alpha=False, texts=64, prompts=16
    )
    if model is not None:
      recipe.model = model
    made[name] = recipe
  return config_dict.create(
    recipes=made,
    arms=tuple(dict(arm) for arm in arms),
    files={name: config_dict.placeholder(str) for name in files},
    seeds=tuple(seeds),
    temperature=1.0,
    smoke=False,
  )
