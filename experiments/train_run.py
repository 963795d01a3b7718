"""From a recipe to a folder with a trained drafter, stage by stage."""

import dataclasses
import itertools
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from experiments import (
  run_files,
  setup,
  train_data,
  train_ends,
  train_show,
  train_trial,
)
from experiments.command import INTERRUPTED
from experiments.train_data import Material
from experiments.train_settings import Settings
from specjax import checkpoints, sharding
from specjax.checkpoints.drafter_files import read_drafter
from specjax.checkpoints.loaded import LoadedModel
from specjax.drafters.trained import TRAINED
from specjax.evaluation.runs import environment, run_folder
from specjax.models.decoder import Transformer
from specjax.text import Tokenizer
from specjax.training import data
from specjax.training.course import Trained
from specjax.training.data import Conversation, Store
from specjax.training.trainer import Trainer
from specjax.training.types import Frozen, Trainee


def run(settings: Settings, output: str, *, as_json: bool) -> int:
  """Does what the folder lacks; the exit status.

  Raises:
    ValueError: in one line; before a model is loaded for what is known then.
  """
  source = checkpoints.resolve(settings.model)
  path = Path(output)

  def load() -> LoadedModel:
    return setup.load_target(source, settings.dtype)

  try:
    summary = complete(settings, path, load)
    train_show.show(summary, path, as_json=as_json)
  except KeyboardInterrupt:
    setup.report("interrupted; run the same command to go on")
    return INTERRUPTED
  return 0


def complete(
  settings: Settings,
  path: Path,
  load: Callable[[], LoadedModel],
  command: str | None = None,
) -> dict[str, Any]:
  """The summary of a run's folder, after all that it lacked was made.

  Args:
    load: gives the target, where it is needed.
    command: what started it, for readers; None is this process's.

  Raises:
    ValueError: in one line.
  """
  mesh, config = _mesh(settings), settings.record()
  command = _command() if command is None else command
  with run_folder.claim(path, config, {}, command=command):
    if not (path / run_files.SUMMARY).exists():
      found = _stages(settings, load(), path, mesh, config)
      run_files.write(path / run_files.SUMMARY, found)
    return run_files.read(path / run_files.SUMMARY)


def _command() -> str:
  return f"python -m experiments.train {shlex.join(sys.argv[1:])}".strip()


def _mesh(settings: Settings):
  rows = settings.rows
  if rows.data_devices * rows.model_devices == 1:
    return None
  return sharding.make_mesh(rows.data_devices, rows.model_devices)


def _stages(settings: Settings, target: LoadedModel, path: Path, mesh, config):
  """The summary, after all that is missing was made."""
  if target.tokenizer is None:
    raise ValueError(f"{target.name} has no tokenizer to read prompts with")
  if not isinstance(target.model, Transformer):
    raise ValueError(f"{target.name} has no features to train on")
  trainee = settings.recipe.build(target.model)
  _check_room(settings, trainee, target)
  start = train_ends.start(settings, trainee)
  if settings.ends.as_it_is:
    assert start is not None
    trained = train_ends.as_it_is(start)
    frozen = _frozen(target, start.token_ids)
    texts = train_data.conversations(settings, target, path)
    learnt: dict[str, Any] = {"conversations": len(texts), "answer_tokens": 0}
  else:
    material = train_data.prepare(settings, trainee, start, target, path)
    texts, learnt = material.texts, material.figures()
    if start is None:
      ids = _token_ids(settings, target.tokenizer, material.stores[0])
    else:
      ids = start.token_ids
    frozen = _frozen(target, ids)
    params = None if start is None else jax.tree.map(jnp.asarray, start.params)
    trained = _train(settings, trainee, frozen, params, material, path, mesh)
  train_ends.save(settings, trainee, frozen, trained, target, path)
  # What is tried is what is stored, which int8 and bfloat16 have rounded.
  stored = jax.tree.map(jnp.asarray, read_drafter(path / TRAINED).params)
  found = _evaluate(settings, trainee, frozen, stored, target, texts, path)
  return {
    "recipe": settings.recipe.kind,
    "objective": dataclasses.asdict(settings.recipe.objective),
    "smoke": settings.smoke,
    **learnt,
    "positions": trained.positions,
    "steps": trained.steps,
    "best_step": trained.step,
    "stopped_early": trained.stopped_early,
    "training_s": trained.seconds,
    "acceptance": list(trained.acceptance),
    "acceptance_length": trained.acceptance_length,
    "temperature": settings.plan.temperature,
    "parameters": _size(stored),
    "num_speculative_tokens": settings.tried.num_speculative_tokens,
    "evaluation": [train_trial.without_prompts(one) for one in found],
    "environment": environment.describe(target.name, target.dtype, config),
  }


def _frozen(target: LoadedModel, ids) -> Frozen:
  ids = None if ids is None else jnp.asarray(ids, jnp.int32)
  return Frozen(target.params, ids)


def _check_room(settings: Settings, trainee: Trainee, target: LoadedModel):
  """Refuses before an hour of data what would be refused after it."""
  trainee.drafter(settings.tried.num_speculative_tokens)
  longest = settings.rows.length
  if longest > target.model.max_positions:
    raise ValueError(
      f"rows of {longest} tokens do not fit {target.name}'s context of"
      f" {target.model.max_positions}: lower length"
    )


def _token_ids(settings: Settings, tokenizer: Tokenizer, store: Store):
  if settings.recipe.vocabulary is None:
    return None
  return data.frequent_tokens(
    store,
    settings.recipe.vocabulary,
    always=tuple(tokenizer.eos_ids),
    held_out=settings.texts.held_out,
    say=setup.report,
  )


def _train(
  settings: Settings,
  trainee: Trainee,
  frozen: Frozen,
  params: PyTree,
  material: Material,
  path: Path,
  mesh,
) -> Trained:
  batches, most = material.train(settings), settings.rows.held_out
  held_out = list(itertools.islice(material.held_out(settings).once(), most))
  setup.report(
    f"training: {settings.plan.steps} steps at most, of {batches.windows}"
    f" windows with {batches.answered:,} laws to learn"
  )
  axes = getattr(trainee, "axes", None)
  trained = Trainer(
    trainee,
    frozen,
    batches,
    held_out,
    settings.plan,
    path / "training",
    params=params,
    axes=None if axes is None else axes(),
    mesh=mesh,
    say=setup.report,
  ).run()
  # Off the mesh again: decoding runs where the target lies.
  params = jax.device_put(trained.params, jax.devices()[0])
  return dataclasses.replace(trained, params=params)


def _evaluate(
  settings: Settings,
  trainee: Trainee,
  frozen: Frozen,
  params: PyTree,
  target: LoadedModel,
  texts: Sequence[Conversation],
  path: Path,
) -> list[dict[str, Any]]:
  if (path / run_files.EVALUATION).exists():
    return run_files.read(path / run_files.EVALUATION)
  if (other := settings.tried.conversations) is not None:
    texts = train_data.read(other)
  found = train_trial.try_out(settings, trainee, frozen, params, target, texts)
  run_files.write(path / run_files.EVALUATION, found)
  return found


def _size(params) -> int:
  return sum(int(leaf.size) for leaf in jax.tree.leaves(params))
