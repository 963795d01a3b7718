"""The realigned drafts as a table and as a figure."""

import io
from collections.abc import Mapping
from typing import Any

from matplotlib import figure
from matplotlib.backends.backend_agg import FigureCanvasAgg
from rich.console import Console
from rich.table import Table

_COLUMNS = {
  "acceptance": "α",
  "tokens": "tokens",
  "agreement": "greedy",
}


def table(record: Mapping[str, Any]) -> None:
  """Every objective beside what is published of it."""
  title = (
    f"A stale draft realigned, {record['seeds']} seeds, gamma"
    f" {record['num_speculative_tokens']}: mean and 95 % interval"
  )
  shown = Table(title=title, title_justify="left")
  shown.add_column("objective", no_wrap=True, min_width=15)
  for name in (*_COLUMNS.values(), "α - forward_kl", "published"):
    shown.add_column(name, justify="right")
  for name, figures in record["objectives"].items():
    shown.add_row(
      name,
      *(_interval(figures[key]) for key in _COLUMNS),
      _interval(record["acceptance_gains"].get(name)),
      _published(record["published"].get(name)),
    )
  Console(highlight=False).print(shown)


def png(record: Mapping[str, Any]) -> bytes:
  """Acceptance and greedy agreement of every objective, with intervals."""
  names = [*record["objectives"]]
  canvas = figure.Figure(figsize=(7, 4.2), dpi=110, layout="constrained")
  FigureCanvasAgg(canvas)
  axes = canvas.subplots()
  for offset, key in ((-0.12, "acceptance"), (0.12, "agreement")):
    found = [record["objectives"][name][key] for name in names]
    means = [one["mean"] for one in found]
    halves = [
      0 if one["low"] is None else one["mean"] - one["low"] for one in found
    ]
    places = [index + offset for index in range(len(names))]
    axes.errorbar(means, places, xerr=halves, fmt="o", capsize=3, label=key)
  axes.set_yticks(range(len(names)), names)
  axes.invert_yaxis()
  axes.set_xlabel("mean and 95 % interval over seeds")
  axes.set_title("A stale draft, realigned by each objective")
  axes.grid(alpha=0.3)
  axes.legend(fontsize="small")
  buffer = io.BytesIO()
  canvas.savefig(buffer, format="png")
  return buffer.getvalue()


def _interval(found: Mapping[str, float | None] | None) -> str:
  if found is None:
    return "–"
  if found["low"] is None or found["mean"] is None:
    return f"{found['mean']:.3f}"
  return f"{found['mean']:.3f} ±{found['mean'] - found['low']:.3f}"


def _published(found: Mapping[str, float] | None) -> str:
  if found is None:
    return "–"
  return ", ".join(f"{_COLUMNS[key]} {value:g}" for key, value in found.items())
