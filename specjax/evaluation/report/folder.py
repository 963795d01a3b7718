"""What a run's folder holds, as far as it is there."""

import base64
import dataclasses
import datetime
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from specjax.evaluation import records
from specjax.evaluation.records import Answer


@dataclasses.dataclass(frozen=True)
class Plot:
  """A picture: its title, and the PNG as a data URI."""

  title: str
  source: str


@dataclasses.dataclass(frozen=True)
class Run:
  """The parts of a run.

  Attributes:
    summary, config: {} where missing.
    answers, traces, plots: empty where missing.
    missing: {file: why it is not shown}.
    written: when the records were last written, in UTC; None without them.
  """

  name: str
  summary: dict[str, Any]
  config: dict[str, Any]
  answers: list[Answer]
  traces: list[dict[str, Any]]
  plots: list[Plot]
  missing: dict[str, str]
  written: datetime.datetime | None


def read(folder: Path) -> Run:
  """Reads what is there; what is not, or cannot be read, is named.

  Raises:
    ValueError: no such folder.
  """
  if not folder.is_dir():
    raise ValueError(f"there is no folder {folder}")
  missing: dict[str, str] = {}

  def load(name: str, how: Callable[[Path], Any], otherwise: Any) -> Any:
    path = folder / name
    if not path.exists():
      missing[name] = f"{name} is not in the run's folder."
      return otherwise
    try:
      return how(path)
    except (OSError, ValueError) as error:
      missing[name] = f"{name} cannot be read: {error}."
      return otherwise

  answers = load(records.FILE, records.read, [])
  return Run(
    name=folder.resolve().name,
    summary=load("summary.json", _object, {}),
    config=load("config.json", _object, {}),
    answers=answers,
    traces=load("traces.jsonl", _traces, []),
    plots=load("plots", _plots, []),
    missing=missing,
    written=_written(folder / records.FILE) if answers else None,
  )


def _object(path: Path) -> dict[str, Any]:
  value = json.loads(path.read_text(encoding="utf-8"))
  if not isinstance(value, dict):
    raise ValueError("no JSON object")
  return value


def _traces(path: Path) -> list[dict[str, Any]]:
  traces = records.read_lines(path)
  for number, trace in enumerate(traces, 1):
    if not isinstance(trace, dict) or "rounds" not in trace:
      raise ValueError(f"trace {number} has no rounds")
  return traces


def _plots(folder: Path) -> list[Plot]:
  plots = []
  for path in sorted(folder.glob("*.png")):
    data = base64.b64encode(path.read_bytes()).decode()
    title = path.stem.replace("_", " ")
    title = title[:1].upper() + title[1:]
    plots.append(Plot(title, f"data:image/png;base64,{data}"))
  if not plots:
    raise ValueError("no PNG files in it")
  return plots


def _written(path: Path) -> datetime.datetime:
  return datetime.datetime.fromtimestamp(path.stat().st_mtime, datetime.UTC)
