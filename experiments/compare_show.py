"""Two runs beside one another, for people."""

from collections.abc import Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

_HEADS = (
  "mode",
  "law",
  "tag",
  "prompts",
  "speedup A",
  "speedup B",
  "B over A (95 %)",
  "accepted A",
  "accepted B",
  "B - A (95 %)",
  "tok/pass A",
  "tok/pass B",
  "outputs equal",
)
_LEFT = (0, 1, 2)


def tables(found: Mapping[str, Any], a: str, b: str) -> list[Table | Text]:
  """Renderables for a rich console: the modes, then what was flagged."""
  table = Table(*_HEADS, title=f"A = {a}, B = {b}")
  for index, column in enumerate(table.columns):
    column.justify = "left" if index in _LEFT else "right"
  for row in found["modes"]:
    style = "bold red" if row["fell"] else ""
    table.add_row(*(Text(cell, style=style) for cell in _cells(row)))
  lines = [f"acceptance fell: {name}" for name in found["fell"]]
  lines = lines or ["no fall of acceptance that 95 % intervals show"]
  for run, names in (("A", found["only_in_a"]), ("B", found["only_in_b"])):
    if names:
      lines.append(f"only in {run}: {', '.join(names)}")
  if found["other_prompts"]:
    lines.append(
      f"answers to other prompts, left out: {found['other_prompts']}"
    )
  return [table, *(Text(line) for line in lines)]


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
  a, b, identity = row["a"], row["b"], row["identity"]
  equal = "-"
  if identity is not None:
    equal = f"{identity['equal']} of {identity['compared']}"
  return (
    row["mode"],
    row["law"],
    row["tag"],
    str(row["questions"]),
    _times(a["speedup"]),
    _times(b["speedup"]),
    _interval(row["speedup_ratio"], "{:.2f}", "x"),
    _share(a["draft_acceptance_rate"]),
    _share(b["draft_acceptance_rate"]),
    _interval(row["acceptance_difference"], "{:+.3f}", ""),
    _number(a["tokens_per_pass"]),
    _number(b["tokens_per_pass"]),
    equal,
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
