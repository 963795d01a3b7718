"""A run's tables, in a terminal and in LaTeX.

Tokens a second never stand without tokens a target pass, the drafted count and
what is known of the outputs.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from specjax.evaluation.records import Mode
from specjax.evaluation.wording import mode_name

_HEADS = (
  "mode",
  "law",
  "speedup (95 %)",
  "prompts",
  "tok/s",
  "tok/pass",
  "drafted",
  "accepted",
  "pred./meas.",
  "outputs",
)
_LEFT = (0, 1, 9)  # columns of text
_SPECIAL = {
  "\\": r"\textbackslash{}",
  "&": r"\&",
  "%": r"\%",
  "$": r"\$",
  "#": r"\#",
  "_": r"\_",
  "{": r"\{",
  "}": r"\}",
  "~": r"\textasciitilde{}",
  "^": r"\textasciicircum{}",
  "<": r"\textless{}",
  ">": r"\textgreater{}",
  "|": r"\textbar{}",
  '"': r"\textquotedbl{}",
  "±": r"$\pm$",
  "–": "--",
}


def terminal(summary: Mapping[str, Any]) -> list[Table | Text]:
  """Renderables for a `rich` console: modes, categories, comparisons."""
  model = summary["environment"].get("model") or "several models"
  modes = Table(*_HEADS, title=f"{model}: headline")
  for entry in summary["modes"]:
    modes.add_row(*_escape_markup(_row(entry, entry["headline"])))
  _align(modes, _LEFT)
  shown: list[Table | Text] = [modes, Text(_left_out(summary), style="dim")]
  for entry in summary["modes"]:
    if not entry["categories"] or entry["mode"]["drafter"] == "none":
      continue
    heads = ("category", *_HEADS[2:])
    name = f"{_name(entry)}, {entry['law']}: by category, nothing left out"
    table = Table(*heads, title=name)
    for category, part in entry["categories"].items():
      row = (category, *_row(entry, part)[2:])
      table.add_row(*_escape_markup(row))
    _align(table, (0, len(heads) - 1))
    shown.append(table)
  shown += [Text(c["sentence"]) for c in summary["comparisons"]]
  return shown


def latex(summary: Mapping[str, Any]) -> str:
  r"""Two `tabular`s for booktabs: modes, then speedups by category.

  Needs `\usepackage{booktabs}` and `\usepackage[T1]{fontenc}`.
  """
  rows = [_row(entry, entry["headline"]) for entry in summary["modes"]]
  align = "".join("l" if i in _LEFT else "r" for i in range(len(_HEADS)))
  left_out = f"% Headline: {_left_out(summary)}"
  parts = [left_out, _tabular(align, _HEADS, rows)]
  compared = [e for e in summary["modes"] if e["speedup"] is not None]
  names = {name: None for entry in compared for name in entry["categories"]}
  if names:
    heads = ("category", *(f"{_name(e)}, {e['law']}" for e in compared))
    table = [
      (name, *(_speedup(e["categories"].get(name)) for e in compared))
      for name in names
    ]
    parts += [
      "% Speedup over plain decoding by category, nothing left out.",
      _tabular("l" + "r" * len(compared), heads, table),
    ]
  return "\n".join(parts) + "\n"


def escape(text: str) -> str:
  """Text as LaTeX prints it."""
  return "".join(_SPECIAL.get(character, character) for character in text)


def _tabular(
  align: str, heads: Sequence[str], rows: Sequence[Sequence[str]]
) -> str:
  lines = [r"\begin{tabular}{" + align + "}", r"\toprule"]
  lines += [_line(heads), r"\midrule", *(_line(row) for row in rows)]
  return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def _line(cells: Sequence[str]) -> str:
  return " & ".join(escape(cell) for cell in cells) + r" \\"


def _row(entry: Mapping[str, Any], part: Mapping[str, Any]) -> tuple[str, ...]:
  figures = part["pooled"]
  speedup = part["speedup"]
  is_base = entry["baseline"] == entry["mode"]["name"]
  return (
    _name(entry),
    entry["law"],
    "1 (baseline)" if is_base else _speedup(part),
    str(speedup["n"] if speedup else figures["questions"]),
    _number(figures["tokens_per_s"], "{:.1f}"),
    _number(figures["tokens_per_pass"], "{:.2f}"),
    _number(figures["drafted"], "{:d}"),
    _number(figures["draft_acceptance_rate"], "{:.1%}"),
    _number(figures["predicted_over_measured"], "{:.2f}"),
    part["verdict"],
  )


def _speedup(part: Mapping[str, Any] | None) -> str:
  ratio = part and part["speedup"]
  if not ratio:
    return "-"
  if ratio["low"] is None:
    return f"{ratio['estimate']:.2f}x (one prompt)"
  return f"{ratio['estimate']:.2f}x ({ratio['low']:.2f}–{ratio['high']:.2f})"


def _left_out(summary: Mapping[str, Any]) -> str:
  counts = [
    f"{_name(e)} {e['headline']['left_out']} of {e['answers']}"
    for e in summary["modes"]
    if e["headline"]["left_out"]
  ]
  rule = (
    "answers whose beginning was given, or that repeat more than 15 % of their"
    " 8-grams or whose baseline's do, are left out"
  )
  return f"{rule}: {', '.join(counts) or 'none'}"


def _name(entry: Mapping[str, Any]) -> str:
  return mode_name(Mode(**entry["mode"]))


def _number(value: float | int | None, form: str) -> str:
  return "-" if value is None else form.format(value)


def _escape_markup(cells: Sequence[str]) -> list[Text]:
  """Names may hold brackets, which rich would read as styles."""
  lossy = "LOSSY" in cells[-1]
  return [Text(cell, style="bold red" if lossy else "") for cell in cells]


def _align(table: Table, left: Sequence[int]) -> None:
  for index, column in enumerate(table.columns):
    column.justify = "left" if index in left else "right"
