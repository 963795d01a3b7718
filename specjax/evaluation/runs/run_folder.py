"""The folder of a run: what lies in it, and whose it is."""

import contextlib
import dataclasses
import json
import shutil
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import filelock

from specjax.evaluation import records
from specjax.evaluation.records import Answer

CONFIG = "config.json"
COSTS = "costs.jsonl"
TRACES = "traces.jsonl"
SUMMARY = "summary.json"

_FILES = (
  CONFIG,
  records.FILE,
  COSTS,
  TRACES,
  SUMMARY,
  "table.txt",
  "table.tex",
  "metrics.prom",
  "vllm.log",
  "requests.jsonl",
  "near_ties.json",
  "report.html",
)
_FOLDERS = ("plots", "answers")
_LOCK = ".lock"


@dataclasses.dataclass(frozen=True)
class RunFolder:
  """Where a run writes. Made by `claim` alone, so that one run writes it."""

  path: Path

  def answers(self) -> list[Answer]:
    """The answers so far."""
    file = self.path / records.FILE
    return records.read(file) if file.exists() else []

  def append(self, answer: Answer) -> None:
    """Keeps an answer: it is on the disk when this returns."""
    records.append(self.path / records.FILE, answer.to_json())


def read_config(path: Path) -> dict[str, Any]:
  """config.json of a run: {"command": ..., "config": ..., "machine": ...}.

  Raises:
    ValueError: there is none, or it does not parse.
  """
  try:
    stated = json.loads((path / CONFIG).read_text(encoding="utf-8"))
    if {"config", "machine"} <= stated.keys():
      return stated
    reason = "it lacks fields"
  except (OSError, ValueError, AttributeError) as error:
    reason = getattr(error, "strerror", None) or str(error)
  raise ValueError(f"{path} is no folder of a run: {CONFIG}: {reason}")


def differences(a: Path, b: Path) -> dict[str, tuple[Any, Any]]:
  """{field: (a's, b's)} of what two runs were asked; {} where one has no
  config.json, as records alone have none."""
  if not ((a / CONFIG).exists() and (b / CONFIG).exists()):
    return {}
  ours, theirs = read_config(a)["config"], read_config(b)["config"]
  return {
    name: (ours.get(name), theirs.get(name))
    for name in (*ours, *(name for name in theirs if name not in ours))
    if ours.get(name) != theirs.get(name)
  }


@contextlib.contextmanager
def claim(
  path: Path,
  config: Mapping[str, Any],
  machine: Mapping[str, Any],
  overwrite: bool | None = None,
  command: str = "",
) -> Generator[RunFolder]:
  """Makes the folder, or goes on with the one that the same run left.

  Args:
    path: of the folder.
    config: all that decides what is measured.
    machine: what it is measured on.
    overwrite: whether to remove another run's files first; None where the
      command does not offer it.
    command: what started it, kept for readers.

  Raises:
    ValueError: it cannot be written, holds something else or another run
      (what differs is named), or another process writes it.
  """
  stated = {"config": dict(config), "machine": dict(machine)}
  stated = json.loads(json.dumps(stated))
  try:
    path.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(path / _LOCK)
    lock.acquire(timeout=0)
  except filelock.Timeout as error:
    raise ValueError(f"another run is writing to {path}") from error
  except OSError as error:
    reason = error.strerror or error
    raise ValueError(
      f"cannot write to {path}: {reason}; choose another --output"
    ) from error
  with lock:
    if overwrite and (path / CONFIG).exists():
      _clear(path)
    else:
      _check(path, stated, offered=overwrite is not None)
    if not (path / CONFIG).exists():
      kept = {"command": command, **stated}
      text = json.dumps(kept, indent=2, ensure_ascii=False)
      (path / CONFIG).write_text(text + "\n", encoding="utf-8")
    for name in (records.FILE, COSTS, TRACES):
      records.mend(path / name)
    yield RunFolder(path)


def _clear(path: Path) -> None:
  for name in _FILES:
    (path / name).unlink(missing_ok=True)
  for name in _FOLDERS:
    shutil.rmtree(path / name, ignore_errors=True)


def _check(path: Path, stated: dict[str, Any], *, offered: bool) -> None:
  if not (path / CONFIG).exists():
    if other := sorted(p.name for p in path.iterdir() if p.name != _LOCK):
      raise ValueError(
        f"{path} holds {other[0]!r} and is no folder of a run; choose another"
        " --output"
      )
    return
  there = read_config(path)
  differs = [
    f"{name}: {_short(old)} there, {_short(new)} now"
    for part in ("config", "machine")
    for name, old, new in _differences(there[part], stated[part])
  ]
  if differs:
    more = f"; and {len(differs) - 3} more" if len(differs) > 3 else ""
    raise ValueError(
      f"{path} holds another run ({'; '.join(differs[:3])}{more}): choose"
      f" another --output{', or --overwrite it' if offered else ''}"
    )


def _differences(there: dict[str, Any], now: dict[str, Any], above: str = ""):
  """(name, old, new), of a section each of its fields: "optimizer.eps"."""
  for name in dict.fromkeys([*there, *now]):
    old, new = there.get(name), now.get(name)
    if isinstance(old, dict) and isinstance(new, dict):
      yield from _differences(old, new, f"{above}{name}.")
    elif old != new:
      yield f"{above}{name}", old, new


def _short(value: Any) -> str:
  text = json.dumps(value, ensure_ascii=False)
  return text if len(text) <= 60 else text[:57] + "..."
