"""Drafters that come with the package, trained for an embedded model.

Each is a folder of `checkpoints.drafter_files` made by a recipe of
configs/train: specjax/shipped/MODEL/KIND. Its name is MODEL:KIND, and where a
drafter is given no draft, that of its target is taken. Beside them are the
conversations that they were trained on, which the model wrote.
"""

import dataclasses
import os
from pathlib import Path

from specjax.checkpoints.names import EMBEDDED
from specjax.drafters.settings import DrafterSettings

FOLDER = Path(__file__).parent.parent / "shipped"
_CHATS = "chats.npz"  # of training/data/packing.py


def names() -> list[str]:
  """All of them, such as "smollm2-135m:eagle3"."""
  return sorted(
    f"{path.parent.name}:{path.name}"
    for path in FOLDER.glob("*/*")
    if path.is_dir()
  )


def find(name: str | os.PathLike[str]) -> Path | None:
  """The folder of a shipped drafter, None where the name is none's."""
  model, colon, kind = os.fspath(name).partition(":")
  own = _embedded(model)
  if not colon or own is None or f"{own}:{kind}" not in names():
    return None
  return FOLDER / own / kind


def conversations(model: str) -> Path | None:
  """The file of what an embedded model wrote, None where there is none."""
  path = FOLDER / (_embedded(model) or "") / _CHATS
  return path if path.is_file() else None


def completed(
  settings: DrafterSettings, kinds: tuple[str, ...], target: str
) -> DrafterSettings:
  """The settings, with the target's shipped drafter where no draft is given.

  Args:
    settings: of a drafter.
    kinds: what may stand in its folder, the preferred one last.
    target: name of the target, as it was asked for.
  """
  model = _embedded(target)
  given = settings.draft_model, settings.draft_layers
  if model is None or given != (None, None):
    return settings
  for kind in reversed(kinds):
    if (name := f"{model}:{kind}") in names():
      return dataclasses.replace(settings, draft_model=name)
  return settings


def _embedded(name: str) -> str | None:
  """The first of an embedded model's names."""
  source = EMBEDDED.get(name.lower())
  return next((key for key, own in EMBEDDED.items() if own is source), None)
