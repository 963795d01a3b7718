"""Two runs beside one another, for people."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

_SPEED = (
  "mode",
  "tag",
  "prompts",
  "A",
  "B",
  "B over A (95 %)",
  "outputs equal",
)
_ACCEPTANCE = ("mode", "tag", "A", "B", "B - A (95 %)", "tok/pass A", "B")


def tables(found: Mapping[str, Any], a: str, b: str) -> list[Table | Text]:
  """Renderables for a rich console: speeds, acceptance, what was flagged."""
  speed = _table(_SPEED, "Speedup over plain decoding of the same run")
  acceptance = _table(_ACCEPTANCE, "Draft tokens accepted")
  for row in found["modes"]:
    speed.add_row(*map(Text, _speed(row)))
    if row["a"]["drafted"] or row["b"]["drafted"]:
      style = "bold red" if row["fell"] else ""
      cells = (Text(cell, style=style) for cell in _acceptance(row))
      acceptance.add_row(*cells)
  lines = [f"acceptance fell: {name}" for name in found["fell"]]
  lines = lines or ["no fall of acceptance that 95 % intervals show"]
  lines += [
    f"settings differ: {name} is {ours} in A, {theirs} in B"
    for name, (ours, theirs) in found.get("settings_differ", {}).items()
  ]
  for run, names in (("A", found["only_in_a"]), ("B", found["only_in_b"])):
    if names:
      lines.append(f"only in {run}: {', '.join(names)}")
  if found["other_prompts"]:
    lines.append(
      f"answers to other prompts, left out: {found['other_prompts']}"
    )
  shown = [Text(f"A = {a}\nB = {b}"), speed]
  shown += [acceptance] if acceptance.row_count else []
  return [*shown, *map(Text, lines)]


def _table(heads: Sequence[str], title: str) -> Table:
  table = Table(*heads, title=title)
  for index, column in enumerate(table.columns):
    column.justify = "left" if index < 2 else "right"
  return table


def _speed(row: Mapping[str, Any]) -> tuple[str, ...]:
  identity, equal = row["identity"], "-"
  if identity is not None:
    equal = f"{identity['equal']} of {identity['compared']}"
  return (
    f"{row['mode']}, {row['law']}",
    row["tag"],
    str(row["questions"]),
    _times(row["a"]["speedup"]),
    _times(row["b"]["speedup"]),
    _interval(row["speedup_ratio"], "{:.2f}", "x"),
    equal,
  )


def _acceptance(row: Mapping[str, Any]) -> tuple[str, ...]:
  a, b = row["a"], row["b"]
  return (
    f"{row['mode']}, {row['law']}",
    row["tag"],
    _share(a["draft_acceptance_rate"]),
    _share(b["draft_acceptance_rate"]),
    _interval(row["acceptance_difference"], "{:+.3f}", ""),
    _number(a["tokens_per_pass"]),
    _number(b["tokens_per_pass"]),
  )


def _times(speedup: Mapping[str, Any] | None) -> str:
  return f"{speedup['estimate']:.2f}x" if speedup else "-"


def _interval(ratio: Mapping[str, Any] | None, form: str, unit: str) -> str:
  if ratio is None:
    return "-"
  middle = form.format(ratio["estimate"]) + unit
  if ratio["low"] is None:
    return f"{middle} (one prompt)"
  return (
    f"{middle} ({form.format(ratio['low'])} to {form.format(ratio['high'])})"
  )


def _share(value: float | None) -> str:
  return "-" if value is None else f"{value:.1%}"


def _number(value: float | int | None) -> str:
  return "-" if value is None else f"{value:.2f}"
