"""Rows of the page's tables and its sentences, from a run's summary."""

import dataclasses
import shlex
from collections.abc import Iterator
from typing import Any

from specjax.evaluation.records import Mode
from specjax.evaluation.report import claims

_FIRST = ("model", "draft_model", "device", "dtype", "versions", "commit")


@dataclasses.dataclass(frozen=True)
class Interval:
  """An estimate between two bounds, over n prompts."""

  estimate: float
  low: float | None
  high: float | None
  n: int | None
  n_needed: int | None


@dataclasses.dataclass(frozen=True)
class Row:
  """Figures of one mode, over all answers or over some of them.

  Attributes:
    name: of the mode or of the category.
    verdict: what is known of its output law.
    identity: how its token ids compare with plain decoding; "" for plain
      decoding itself.
    left_out: how many answers are not among them, and why; "" where all are.
    speedup: over plain decoding of the same law; None without one.
    figures: `pooled` of the summary.
  """

  name: str
  verdict: str
  identity: str
  answers: int | None
  left_out: str
  speedup: Interval | None
  figures: dict[str, Any]


def headline(summary: dict[str, Any]) -> list[Row]:
  """A row a mode, without what flatters lookup."""
  return [
    _row(entry, entry.get("headline") or entry, _name(entry))
    for entry in summary.get("modes", [])
  ]


def everything(summary: dict[str, Any]) -> list[Row]:
  """A row a mode, nothing left out."""
  return [_row(e, e, _name(e)) for e in summary.get("modes", [])]


def categories(summary: dict[str, Any]) -> list[tuple[str, list[Row]]]:
  """(mode, a row a category) for each mode."""
  return [
    (
      _name(entry),
      [
        _row(entry, part, name)
        for name, part in (entry.get("categories") or {}).items()
      ],
    )
    for entry in summary.get("modes", [])
  ]


def speedups(summary: dict[str, Any]) -> tuple[list[str], list[Any]]:
  """Speedup by category: (modes, [(category, an interval or None a mode)])."""
  modes = [m for m in summary.get("modes", []) if not _mode(m).is_plain]
  names = {c: None for m in modes for c in m.get("categories") or {}}
  rows = [
    (
      category,
      [
        interval((m.get("categories") or {}).get(category, {}).get("speedup"))
        for m in modes
      ],
    )
    for category in names
  ]
  return [_name(m) for m in modes], rows


def sentences(summary: dict[str, Any]) -> list[str]:
  """The comparisons, in words."""
  comparisons = summary.get("comparisons") or []
  return [c["sentence"] for c in comparisons if c.get("sentence")]


def differences(summary: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
  """(mode, question_id, turn, repeat and index) of what is not identical."""
  return [
    (_name(entry), place)
    for entry in summary.get("modes", [])
    for place in (entry.get("identity") or {}).get("first_difference") or []
  ]


def interval(entry: dict[str, Any] | None) -> Interval | None:
  """The interval of a summary's ratio."""
  if not entry or entry.get("estimate") is None:
    return None
  return Interval(
    estimate=entry["estimate"],
    low=entry.get("low"),
    high=entry.get("high"),
    n=entry.get("n"),
    n_needed=entry.get("n_needed"),
  )


def baselines(summary: dict[str, Any]) -> set[str]:
  """Names of the modes that others are compared with."""
  return {e["baseline"] for e in summary.get("modes", []) if e.get("baseline")}


def facts(environment: dict[str, Any]) -> list[tuple[str, str]]:
  """(label, value) of an environment, the most asked for first."""
  rest = [name for name in environment if name not in _FIRST]
  order = [name for name in _FIRST if name in environment] + sorted(rest)
  pairs = [(n.replace("_", " "), _plain(environment[n])) for n in order]
  return [(name, value) for name, value in pairs if value]


def command(*sources: dict[str, Any]) -> str | None:
  """The command line of a run, from the first source that has it."""
  for source in sources:
    found = source.get("command")
    if found:
      return found if isinstance(found, str) else shlex.join(map(str, found))
  return None


def _row(entry: dict[str, Any], part: dict[str, Any], name: str) -> Row:
  mode = _mode(entry)
  is_base = entry.get("baseline") == mode.name
  return Row(
    name=name,
    verdict=claims.describe_law(mode, part.get("identity")),
    identity="" if is_base else claims.describe_identity(part.get("identity")),
    answers=part.get("answers"),
    left_out=_left_out(part),
    speedup=interval(part.get("speedup")),
    figures=part.get("pooled") or {},
  )


def _left_out(part: dict[str, Any]) -> str:
  if not part.get("left_out"):
    return ""
  reasons = [
    f"{part[key]} {reason}"
    for key, reason in (
      ("left_out_repetitive", "repetitive"),
      ("left_out_begun", "begun"),
    )
    if part.get(key)
  ]
  why = f" ({', '.join(reasons)})" if reasons else ""
  return f"{part['left_out']}{why}"


def _mode(entry: dict[str, Any]) -> Mode:
  known = {field.name for field in dataclasses.fields(Mode)}
  return Mode(**{k: v for k, v in entry["mode"].items() if k in known})


def _name(entry: dict[str, Any]) -> str:
  return entry["mode"]["name"]


def _plain(value: Any) -> str:
  if isinstance(value, dict):
    return ", ".join(_pairs(value))
  if isinstance(value, list | tuple):
    return ", ".join(_plain(item) for item in value)
  return "" if value is None else str(value)


def _pairs(value: dict[str, Any]) -> Iterator[str]:
  for key, item in value.items():
    text = _plain(item)
    if text:
      yield f"{key} {text}"
