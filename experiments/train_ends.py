"""The drafter that a training starts from, and the one that it leaves."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from experiments import setup
from experiments.train_settings import Settings
from specjax.checkpoints.drafter_files import (
  DrafterFile,
  read_drafter,
  save_drafter,
)
from specjax.checkpoints.loaded import LoadedModel
from specjax.drafters.trained import TRAINED
from specjax.training.course import Trained
from specjax.training.types import Frozen, Trainee


def start(settings: Settings, trainee: Trainee) -> DrafterFile | None:
  """The drafter that training goes on from.

  Raises:
    ValueError: it is of another kind or other sizes.
  """
  if settings.ends.start is None:
    return None
  file = read_drafter(settings.ends.start)
  stated = json.loads(json.dumps(settings.recipe.describe(trainee)))
  if (file.kind, file.settings) != (settings.recipe.kind, stated):
    raise ValueError(
      f"{settings.ends.start} holds {file.kind} of other settings than the"
      f" config's {settings.recipe.kind}"
    )
  setup.report(f"starting from {settings.ends.start}")
  return file


def as_it_is(file: DrafterFile) -> Trained:
  """A training of no steps."""
  return Trained(
    params=jax.tree.map(jnp.asarray, file.params),
    step=0,
    steps=0,
    positions=0,
    acceptance=(),
    acceptance_length=1.0,
    stopped_early=False,
    seconds=0.0,
  )


def save(
  settings: Settings,
  trainee: Trainee,
  frozen: Frozen,
  trained: Trained,
  target: LoadedModel,
  path: Path,
) -> None:
  """The drafter's own folder, which loads by path."""
  if (path / TRAINED).exists():
    return
  embedding = frozen.target["embed"]["embedding"]
  sizes = (embedding.shape[0], embedding.shape[1])
  ids = frozen.token_ids
  save_drafter(
    path / TRAINED,
    DrafterFile(
      kind=settings.recipe.kind,
      settings=settings.recipe.describe(trainee),
      target=target.name,
      target_sizes=sizes,
      params=trained.params,
      token_ids=None if ids is None else np.asarray(ids),
      notes={
        "steps": trained.step,
        "positions": trained.positions,
        "acceptance": list(trained.acceptance),
        "temperature": settings.plan.temperature,
      },
    ),
    settings.ends.storage,
  )
