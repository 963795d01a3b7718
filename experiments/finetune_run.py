"""A target that learns a text itself: a draft that is the whole of it."""

import dataclasses
import itertools
import json
import shlex
import sys
from pathlib import Path
from typing import Any

from experiments import run_files, setup, train_data
from experiments.command import INTERRUPTED
from experiments.train_parts import Rows, Texts, content_of
from specjax import checkpoints
from specjax.checkpoints.loaded import LoadedModel
from specjax.evaluation.runs import environment, run_folder
from specjax.models.decoder import Transformer
from specjax.training import data, logs
from specjax.training.course import Trained
from specjax.training.data import Batches, Conversation, PlainTexts
from specjax.training.draft_model import DraftTrainee
from specjax.training.losses import Loss
from specjax.training.optimizer import Optimizer
from specjax.training.plan import Plan
from specjax.training.trainer import Trainer
from specjax.training.types import Frozen

MODEL = "model"  # where the folder has what came out


@dataclasses.dataclass(frozen=True)
class Settings:
  """Flags of `experiments.finetune`, checked.

  Raises:
    ValueError: with the fault.
  """

  model: str
  dtype: str | None
  corpus: str | None
  texts: str | None
  last_layers: int | None
  learning_rate: float
  warmup_steps: int
  steps: int
  evaluate_every: int
  batch: int
  micro_batches: int
  length: int
  held_out: float
  windows: int
  seed: int

  def __post_init__(self):
    if (self.corpus is None) == (self.texts is None):
      raise ValueError("give --corpus or --texts, one of them")
    # What a training's config has too is checked as it is there.
    file = self.texts if self.corpus is None else self.corpus
    Texts(conversations=file, held_out=self.held_out)
    Rows(batch=self.batch, length=self.length)
    for name in ("windows", "last_layers"):
      value = getattr(self, name)
      if value is not None and value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")
    if self.batch % self.plan.micro_batches:
      raise ValueError(
        f"a batch of {self.batch} rows does not divide into"
        f" {self.micro_batches} micro-batches"
      )

  @property
  def plan(self) -> Plan:
    """The best evaluation is kept; none ends the training early."""
    return Plan(
      steps=self.steps,
      optimizer=Optimizer(
        learning_rate=self.learning_rate, warmup_steps=self.warmup_steps
      ),
      micro_batches=self.micro_batches,
      evaluate_every=self.evaluate_every,
      keep=1,
      seed=self.seed,
    )

  def record(self) -> dict[str, Any]:
    """What a rerun must match: contents in place of paths."""
    stated = dataclasses.asdict(self)
    for name in ("corpus", "texts"):
      stated[name] = content_of(stated[name])
    return stated


def run(settings: Settings, output: str, *, as_json: bool) -> int:
  """Does what the folder lacks; the exit status.

  Raises:
    ValueError: in one line; before a model is loaded for what is known then.
  """
  source = checkpoints.resolve(settings.model)
  path, config = Path(output), settings.record()
  summary = path / run_files.SUMMARY
  command = f"python -m experiments.finetune {shlex.join(sys.argv[1:])}"
  try:
    with run_folder.claim(path, config, {}, command=command.strip()):
      if not summary.exists():
        target = setup.load_target(source, settings.dtype)
        run_files.write(summary, _tune(settings, target, path))
      _show(run_files.read(summary), path, as_json=as_json)
  except KeyboardInterrupt:
    setup.report("interrupted; run the same command to go on")
    return INTERRUPTED
  return 0


def _tune(settings: Settings, target: LoadedModel, path: Path):
  """The summary, after the model was saved."""
  model = target.model
  if not isinstance(model, Transformer):
    raise ValueError(f"{target.name} is no decoder to fine-tune")
  if settings.length > model.max_positions:
    raise ValueError(
      f"texts of {settings.length} tokens do not fit {target.name}'s context of"
      f" {model.max_positions}: lower --window"
    )
  texts = _read(settings, target)
  train, held_out = _batches(settings, texts, model.vocab_size)
  trainee = tuned_part(model, settings.last_layers)
  # What is trained whole needs nothing of the target.
  whole = settings.last_layers is None
  frozen = Frozen({} if whole else target.params)
  folder = path / "training"
  setup.report(
    f"training: {settings.steps} steps on {train.windows} windows of"
    f" {settings.length} tokens"
  )
  trained = Trainer(
    trainee,
    frozen,
    train,
    held_out,
    settings.plan,
    folder,
    params=target.params if whole else None,
    say=setup.report,
  ).run()
  if trained.step == 0:
    raise ValueError(
      "no evaluation was better than the model itself: lower --learning_rate"
      " or take more --steps"
    )
  if not (path / MODEL).exists():
    params = trainee.draft_params(trained.params, frozen)
    checkpoints.save_checkpoint(
      path / MODEL, model.config, params, target.tokenizer
    )
  return _summary(settings, target, trained, train, folder)


def tuned_part(model: Transformer, last_layers: int | None) -> DraftTrainee:
  """The whole target as a trainee, or its last layers and final norm.

  Raises:
    ValueError: more layers than it has.
  """
  config = model.config
  layers = tuple(range(config.num_layers))
  given = dict(objective=Loss("sft"), layers=layers)
  if last_layers is None:
    return DraftTrainee(config, config, share_embedding=False, **given)
  if not 1 <= last_layers < config.num_layers:
    raise ValueError(
      f"--last_layers={last_layers} of {config.num_layers}: choose 1 to"
      f" {config.num_layers - 1}, or leave it out to train everything"
    )
  return DraftTrainee(
    config,
    config,
    train_head=False,
    share_layers=config.num_layers - last_layers,
    **given,
  )


def _read(settings: Settings, target: LoadedModel) -> list[Conversation]:
  if settings.texts is not None:
    return train_data.read(settings.texts)
  if target.tokenizer is None:
    raise ValueError(f"{target.name} has no tokenizer to read a corpus with")
  assert settings.corpus is not None
  path = Path(settings.corpus)
  return data.corpus_windows(target.tokenizer, path, settings.length)


def _batches(settings: Settings, texts: list[Conversation], vocab_size: int):
  """(of every step, those that are held out)."""
  store = PlainTexts(texts, vocab_size)

  def draw(side: str) -> Batches:
    return Batches(
      [store],
      batch=settings.batch,
      length=settings.length,
      seed=settings.seed,
      side=side,
      held_out=settings.held_out,
    )

  most = -(-settings.windows // settings.batch)
  return draw("train"), list(itertools.islice(draw("held_out").once(), most))


def _summary(
  settings: Settings,
  target: LoadedModel,
  trained: Trained,
  train: Batches,
  folder: Path,
) -> dict[str, Any]:
  lines = {
    line["step"]: line
    for line in logs.read(folder / logs.FILE)
    if "held_out_loss" in line
  }
  before, after = lines[0], lines[trained.step]
  return {
    "steps": trained.steps,
    "best_step": trained.step,
    "windows": train.windows,
    "tokens_learnt": trained.positions,
    "held_out_loss_before": before["held_out_loss"],
    "held_out_loss": after["held_out_loss"],
    "probability_before": before["acceptance"][0],
    "probability": after["acceptance"][0],
    "training_s": trained.seconds,
    "environment": environment.describe(
      target.name, target.dtype, settings.record()
    ),
  }


def _show(summary: dict[str, Any], path: Path, *, as_json: bool) -> None:
  if as_json:
    print(json.dumps(summary))
    return
  print(
    f"held-out loss {summary['held_out_loss_before']:.3f} ->"
    f" {summary['held_out_loss']:.3f} nats a token at step"
    f" {summary['best_step']}, {summary['training_s'] / 60:.1f} min"
  )
  setup.report(f"--model={path / MODEL} loads it")
