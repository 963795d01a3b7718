"""A run's tables, in a terminal and in LaTeX.

Tokens a second never stand without tokens a target pass, the drafted count and
what is known of the outputs.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from specjax.evaluation.figures.wording import mode_name
from specjax.evaluation.records import Mode

_HEADS = (
  "mode",
  "law",
  "speedup (95 %)",
  "n",
  "tok/s",
  "tok /pass",
  "drafted",
  "accepted",
  "pred. /meas.",
  "outputs",
)
_LEFT = (0, 1, 9)  # columns of text
_WRAPS = {0: 13, 1: 6, 2: 11, 9: 9}  # those that may wrap, to no less than this
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
  """Renderables for a `rich` console: modes, categories, comparisons.

  Names and verdicts wrap in a terminal of 80 columns, numbers never do.
  """
  model = summary["environment"].get("model") or "several models"
  laws = list(dict.fromkeys(entry["law"] for entry in summary["modes"]))
  title = (
    f"{model}, {laws[0] if len(laws) == 1 else 'by law'}: headline, n prompts"
  )
  rows = [_row(entry, entry["headline"]) for entry in summary["modes"]]
  kept = [i for i in range(len(_HEADS)) if i != 1 or len(laws) > 1]
  shown: list[Table | Text] = [
    _table(title, _HEADS, rows, kept),
    Text(_left_out(summary), style="dim"),
  ]
  for entry in summary["modes"]:
    if not entry["categories"] or entry["mode"]["drafter"] == "none":
      continue
    name = f"{_name(entry)}, {entry['law']}: by category, nothing left out"
    heads = ("category", *_HEADS[1:])
    parts = [
      (category, *_row(entry, part)[1:])
      for category, part in entry["categories"].items()
    ]
    kept = [i for i in range(len(_HEADS)) if i != 1]
    shown += [Text(), _table(name, heads, parts, kept)]
  sentences = [Text(c["sentence"]) for c in summary["comparisons"]]
  return [*shown, Text(), *sentences]


def latex(summary: Mapping[str, Any]) -> str:
  r"""Two `tabular`s for booktabs: modes, then speedups by category.

  Needs `\usepackage{booktabs}` and `\usepackage[T1]{fontenc}`.
  """
  rows = [_row(entry, entry["headline"]) for entry in summary["modes"]]
  align = "".join("l" if i in _LEFT else "r" for i in range(len(_HEADS)))
  left_out = f"% Headline: {_left_out(summary)}"
  heads = [head.replace(" /", "/") for head in _HEADS]
  parts = [left_out, _tabular(align, heads, rows)]
  compared = [e for e in summary["modes"] if e["speedup"] is not None]
  names = {name: None for entry in compared for name in entry["categories"]}
  if names:
    heads = ["category", *(f"{_name(e)}, {e['law']}" for e in compared)]
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


def _table(
  title: str,
  heads: Sequence[str],
  rows: Sequence[Sequence[str]],
  kept: Sequence[int],
) -> Table:
  """Of the columns `kept`; cells are no markup, for names may hold brackets."""
  table = Table(title=title, box=box.SIMPLE_HEAD, show_edge=False, padding=0)
  for index in kept:
    text = index in _LEFT
    table.add_column(
      heads[index] if text else heads[index].replace(" ", "\n", 1),
      justify="left" if text else "right",
      no_wrap=index not in _WRAPS,
      min_width=_WRAPS.get(index),
    )
  for row in rows:
    style = "bold red" if "LOSSY" in row[-1] else ""
    table.add_row(*(Text(row[index], style=style) for index in kept))
  return table
