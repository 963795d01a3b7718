"""From a recipe to a folder with a trained drafter, stage by stage."""

import dataclasses
import itertools
import json
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags
from jaxtyping import PyTree

from experiments import memory, setup, train_show
from experiments.command import INTERRUPTED
from experiments.train_recipes import KINDS
from experiments.train_settings import Settings
from specjax import checkpoints, sharding
from specjax.checkpoints.drafter_files import (
  DrafterFile,
  read_drafter,
  save_drafter,
)
from specjax.checkpoints.loaded import LoadedModel, load_model
from specjax.drafters.trained import TRAINED
from specjax.evaluation.runs import environment, run_folder
from specjax.models.decoder import Transformer
from specjax.text import Tokenizer
from specjax.training import data, evaluation
from specjax.training.data import Batches, Conversation, Store
from specjax.training.trainer import Trained, Trainer
from specjax.training.types import Frozen, Trainee

FLAGS = flags.FLAGS
SUMMARY = run_folder.SUMMARY
EVALUATION = "evaluation.json"


def run(settings: Settings, output: str, *, as_json: bool) -> int:
  """Does what the folder lacks; the exit status.

  Raises:
    ValueError: in one line; before a model is loaded for what is known then.
  """
  source = checkpoints.resolve(settings.model)
  mesh = _mesh(settings)
  path = Path(output)
  config = settings.record()
  try:
    with run_folder.claim(path, config, {}, command=_command()):
      if not (path / SUMMARY).exists():
        setup.use_compilation_cache(FLAGS.compilation_cache)
        setup.report(f"loading {source.name}")
        target = load_model(source, settings.dtype)
        memory.reuse_freed_memory()
        _write(path / SUMMARY, _stages(settings, target, path, mesh, config))
      train_show.show(_read(path / SUMMARY), path, as_json=as_json)
  except KeyboardInterrupt:
    setup.report("interrupted; run the same command to go on")
    return INTERRUPTED
  return 0


def _command() -> str:
  return f"python -m experiments.train {shlex.join(sys.argv[1:])}".strip()


def _mesh(settings: Settings):
  rows = settings.rows
  if rows.data_devices * rows.model_devices == 1:
    return None
  return sharding.make_mesh(rows.data_devices, rows.model_devices)


def _stages(settings: Settings, target: LoadedModel, path: Path, mesh, config):
  """The summary, after all that is missing was made."""
  tokenizer = target.tokenizer
  if tokenizer is None:
    raise ValueError(f"{target.name} has no tokenizer to read prompts with")
  if not isinstance(target.model, Transformer):
    raise ValueError(f"{target.name} has no features to train on")
  trainee = settings.recipe.build(target.model)
  _check_room(settings, trainee, target)
  texts = _conversations(settings, target, tokenizer, path)
  labelling = dataclasses.replace(settings.labelling, taps=trainee.taps)
  setup.report("labels: one pass of the target over every text")
  data.label(target, texts, path / "labels", labelling, setup.report)
  store = Store(path / "labels")
  start = _start(settings, trainee)
  if start is None:
    ids = _token_ids(settings, tokenizer, store)
  else:
    ids = None if start.token_ids is None else jnp.asarray(start.token_ids)
  frozen = Frozen(target.params, ids)
  params = None if start is None else jax.tree.map(jnp.asarray, start.params)
  trained = _train(settings, trainee, frozen, params, store, path, mesh)
  _save(settings, trainee, frozen, trained, target, path)
  # What is tried is what is stored, which int8 and bfloat16 have rounded.
  stored = jax.tree.map(jnp.asarray, read_drafter(path / TRAINED).params)
  trained = dataclasses.replace(trained, params=stored)
  found = _evaluate(settings, trainee, frozen, trained, target, texts, path)
  return {
    "recipe": settings.recipe.kind,
    "objective": dataclasses.asdict(settings.recipe.objective),
    "smoke": settings.smoke,
    "conversations": len(texts),
    "positions": trained.positions,
    "steps": trained.steps,
    "best_step": trained.step,
    "stopped_early": trained.stopped_early,
    "training_s": trained.seconds,
    "acceptance": list(trained.acceptance),
    "acceptance_length": trained.acceptance_length,
    "temperature": settings.plan.temperature,
    "parameters": _size(trained.params),
    "num_speculative_tokens": settings.num_speculative_tokens,
    "evaluation": found,
    "environment": environment.describe(target.name, target.dtype, config),
  }


def _check_room(settings: Settings, trainee: Trainee, target: LoadedModel):
  """Refuses before an hour of data what would be refused after it."""
  trainee.drafter(settings.num_speculative_tokens)
  longest = settings.rows.length
  if longest > target.model.max_positions:
    raise ValueError(
      f"rows of {longest} tokens do not fit {target.name}'s context of"
      f" {target.model.max_positions}: lower length"
    )


def _conversations(
  settings: Settings, target: LoadedModel, tokenizer: Tokenizer, path: Path
) -> list[Conversation]:
  texts = settings.texts
  if texts.conversations is not None:
    given = Path(texts.conversations)
    if given.suffix == ".npz":
      return data.unpack(given)
    return data.read_conversations(given)
  file, making = path / "conversations.jsonl", texts.making
  assert making is not None
  if texts.prompt_file is None:
    setup.report("data: the target writes queries and answers them")
    data.make_synthetic(target, file, making, say=setup.report)
  else:
    setup.report(f"data: the target answers the prompts of {texts.prompt_file}")
    prompts = data.read_prompts(texts.prompt_file, tokenizer)
    data.answer_prompts(target, file, prompts, making, say=setup.report)
  return data.read_conversations(file)


def _start(settings: Settings, trainee: Trainee) -> DrafterFile | None:
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


def _token_ids(settings: Settings, tokenizer: Tokenizer, store: Store):
  if settings.recipe.vocabulary is None:
    return None
  ids = data.frequent_tokens(
    store,
    settings.recipe.vocabulary,
    always=tuple(tokenizer.eos_ids),
    held_out=settings.texts.held_out,
    say=setup.report,
  )
  return jnp.asarray(ids, jnp.int32)


def _train(
  settings: Settings,
  trainee: Trainee,
  frozen: Frozen,
  params: PyTree,
  store: Store,
  path: Path,
  mesh,
) -> Trained:
  def drawn(side) -> Batches:
    return Batches(
      [store],
      batch=settings.rows.batch,
      length=settings.rows.length,
      seed=settings.plan.seed,
      side=side,
      held_out=settings.texts.held_out,
      taps=trainee.taps,
    )

  batches = drawn("train")
  most = settings.rows.held_out
  held_out = list(itertools.islice(drawn("held_out").once(), most))
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


def _save(
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


def _evaluate(
  settings: Settings,
  trainee: Trainee,
  frozen: Frozen,
  trained: Trained,
  target: LoadedModel,
  texts: Sequence[Conversation],
  path: Path,
) -> list[dict[str, Any]]:
  if (path / EVALUATION).exists():
    return _read(path / EVALUATION)
  share, prompts = settings.texts.held_out, {}
  for text in texts:
    if text.answers and data.is_held_out(text.prompt_id, share):
      start = text.answers[0][0]
      prompts.setdefault(text.prompt_id, text.token_ids[:start])
  asked = [ids for ids in prompts.values() if ids][: settings.prompts]
  if not asked:
    raise ValueError("no prompt is held out to evaluate on: raise held_out")
  setup.report(f"evaluation: {len(asked)} prompts that were not trained on")
  separate = KINDS[settings.recipe.kind].separate
  trial = settings.trial
  found = evaluation.in_the_loop(
    target,
    trainee.drafter(settings.num_speculative_tokens),
    trainee.draft_params(trained.params, frozen),
    asked,
    dataclasses.replace(trial, alpha=trial.alpha and separate),
    setup.report,
  )
  _write(path / EVALUATION, found)
  return found


def _size(params) -> int:
  return sum(int(leaf.size) for leaf in jax.tree.leaves(params))


def _write(path: Path, value: Any) -> None:
  """Whole or not at all, so that a file that is there is finished."""
  beside = path.with_suffix(".tmp")
  beside.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
  os.replace(beside, path)


def _read(path: Path) -> Any:
  return json.loads(path.read_text(encoding="utf-8"))
