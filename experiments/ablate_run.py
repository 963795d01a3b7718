"""Runs the arms of an ablation one after another, then compares them."""

import dataclasses
import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from experiments import (
  ablate_figures,
  ablate_show,
  memory,
  run_files,
  setup,
  train_run,
)
from experiments.ablate_settings import Arm, Study
from experiments.command import INTERRUPTED
from experiments.train_settings import Settings
from specjax import checkpoints
from specjax.checkpoints.loaded import LoadedModel
from specjax.models.decoder import Transformer
from specjax.training import data

RECORD = "ablation.json"


def run(study: Study, output: str, *, as_json: bool) -> int:
  """Trains what is missing and writes the comparison; the exit status.

  Raises:
    ValueError: in one line, with the arm that has the fault.
  """
  path, targets = Path(output), Targets()
  for arm in study.arms:
    for settings in arm.runs.values():
      checkpoints.resolve(settings.model)
  wanted = [arm for arm in study.arms if arm.name in study.chosen]
  todo = [one for arm in wanted for one in _missing(path, arm)]
  try:
    if todo:
      _make_stores(study, targets)
    for place, (arm, seed, settings) in enumerate(todo, 1):
      setup.report(f"[{place}/{len(todo)}] {arm.name}, seed {seed}")
      _train(path, arm, seed, settings, targets)
      memory.give_programs_back()
  except KeyboardInterrupt:
    setup.report("interrupted; run the same command to go on")
    return INTERRUPTED
  finished = {arm.name: list(_finished(path, arm)) for arm in study.arms}
  record = ablate_figures.compare(study, finished)
  path.mkdir(parents=True, exist_ok=True)
  run_files.write(path / RECORD, record)
  pictures = ablate_show.draw(record, path)
  if as_json:
    print(json.dumps(record))
  else:
    ablate_show.table(record)
    setup.report(f"written to {path}: {', '.join([RECORD, *pictures])}")
  return 0


class Targets:
  """The target that was asked for last; another takes its place."""

  def __init__(self):
    self._loaded: tuple[Any, LoadedModel] | None = None

  def load(self, settings: Settings) -> LoadedModel:
    """The target of a run."""
    wanted = settings.model, settings.dtype
    if self._loaded is None or self._loaded[0] != wanted:
      self._loaded = None  # its memory first
      source = checkpoints.resolve(settings.model)
      self._loaded = wanted, setup.load_target(source, settings.dtype)
    return self._loaded[1]


def _folder(path: Path, arm: Arm, seed: int) -> Path:
  return path / arm.name / f"seed_{seed}"


def _missing(path: Path, arm: Arm) -> Iterator[tuple[Arm, int, Settings]]:
  for seed, settings in arm.runs.items():
    if not (_folder(path, arm, seed) / run_files.SUMMARY).exists():
      yield arm, seed, settings


def _train(
  path: Path, arm: Arm, seed: int, settings: Settings, targets: Targets
) -> None:
  command = f"python -m experiments.ablate {shlex.join(sys.argv[1:])}".strip()
  try:
    train_run.complete(
      settings,
      _folder(path, arm, seed),
      lambda: targets.load(settings),
      command,
    )
  except ValueError as error:
    raise ValueError(f"arm {arm.name}, seed {seed}: {error}") from error


def _finished(path: Path, arm: Arm) -> Iterator[ablate_figures.Finished]:
  """What each seed came to; a folder of other settings is refused.

  Raises:
    ValueError: with what differs.
  """
  for seed, settings in arm.runs.items():
    folder = _folder(path, arm, seed)
    if not (folder / run_files.SUMMARY).exists():
      continue
    try:
      summary = train_run.complete(settings, folder, _nothing)
    except ValueError as error:
      raise ValueError(f"arm {arm.name}, seed {seed}: {error}") from error
    trials = run_files.read(folder / run_files.EVALUATION)
    yield ablate_figures.Finished(seed, summary, trials)


def _nothing() -> LoadedModel:
  raise AssertionError("what is finished needs no target")


def _make_stores(study: Study, targets: Targets) -> None:
  """A store for all arms that name it, with what any of them needs."""
  stores: dict[str, list[Settings]] = {}
  for arm in study.arms:
    settings = next(iter(arm.runs.values()))
    folder = settings.labels.folder
    if folder is not None and not settings.ends.as_it_is:
      stores.setdefault(folder, []).append(settings)
  for folder, sharing in stores.items():
    if (Path(folder) / data.MANIFEST).exists():
      continue
    target, taps, top_k = targets.load(sharing[0]), set(), 1
    assert isinstance(target.model, Transformer)
    for settings in sharing:
      asked = settings.labels.labelling
      trainee = settings.recipe.build(target.model)
      taps |= {*asked.taps, *settings.labels.needed(trainee.taps)}
      top_k = max(top_k, asked.top_k)
    labelling = dataclasses.replace(
      sharing[0].labels.labelling, top_k=top_k, taps=tuple(sorted(taps))
    )
    data.make_store(Path(folder), labelling.settings(target))
