"""Arms of an ablation as a table, and as pictures."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from specjax.training import scaling

_WIDTH = 170  # characters; a row is one line
_NAMES = {"acceptance": "acceptance", "tokens_a_round": "tokens a round"}


def table(record: Mapping[str, Any]) -> None:
  """Prints every arm, and what the curves say of ten times the data."""
  title = (
    f"Temperature {record['temperature']:g}: mean over seeds, 95 % interval"
    " over prompts; gain over the arm in brackets"
  )
  shown = Table(title=title, title_justify="left", box=None, pad_edge=False)
  shown.add_column("arm", no_wrap=True)
  for name in (
    "acceptance",
    "gain",
    "tokens a round",
    "gain",
    "seeds",
    "weights",
    "answer tokens",
    "min",
  ):
    shown.add_column(name, justify="right", no_wrap=True)
  for arm in record["arms"]:
    versus = "" if arm["against"] == arm["name"] else f" ({arm['against']})"
    length = arm["tokens_a_round"]
    shown.add_row(
      arm["name"] + versus,
      _interval(arm["acceptance"]),
      _interval((arm["acceptance"] or {}).get("gain"), signed=True),
      _interval(length),
      _interval((length or {}).get("gain"), signed=True),
      str(len(arm["seeds"])),
      f"{arm['parameters'] / 1e6:.1f} M",
      f"{arm['answer_tokens'] + arm['drafted_tokens']:,.0f}",
      f"{arm['training_s'] / 60:.1f}",
    )
  Console(highlight=False, width=_WIDTH).print(shown)
  for name, found in record["curves"].items():
    if (fit := found["fit"]) is not None:
      print(
        f"{name}: {_formula(fit)}; at {fit['tokens']:,.0f} tokens"
        f" {fit['value']:.3f} ({fit['low']:.3f} to {fit['high']:.3f}), over"
        f" the largest {_interval(fit['gain'], signed=True)}"
      )


def draw(record: Mapping[str, Any], folder: Path) -> list[str]:
  """ablation.png, and curves.png where there are some; their names."""
  pictures = {"ablation.png": _bars(record), "curves.png": _curves(record)}
  for name, figure in pictures.items():
    if figure is not None:
      FigureCanvasAgg(figure)
      figure.savefig(folder / name, dpi=120)
  return [name for name, figure in pictures.items() if figure is not None]


def _bars(record: Mapping[str, Any]) -> Figure | None:
  """Each measure of every arm with its interval; dots are seeds."""
  arms = record["arms"]
  if not arms:
    return None
  figure = Figure(figsize=(10, 1.6 + 0.34 * len(arms)), layout="constrained")
  for axes, (name, label) in zip(
    figure.subplots(1, 2, sharey=True), _NAMES.items(), strict=True
  ):
    for row, arm in enumerate(arms):
      if (found := arm[name]) is None:
        continue
      axes.plot(
        found["by_seed"], [row] * len(found["by_seed"]), ".", color="0.6"
      )
      _mark(axes, found["estimate"], row, found)
    axes.set_xlabel(label)
    axes.grid(alpha=0.3)
  axes.set_yticks(range(len(arms)), [arm["name"] for arm in arms])
  axes.invert_yaxis()
  figure.suptitle(
    f"Temperature {record['temperature']:g}: mean over seeds, 95 % interval"
    " over prompts",
    fontsize=11,
  )
  return figure


def _mark(axes, x: float, y: float, found: Mapping[str, Any]) -> None:
  low = x if found["low"] is None else found["low"]
  high = x if found["high"] is None else found["high"]
  ends = [[max(x - low, 0)], [max(high - x, 0)]]
  axes.errorbar([x], [y], xerr=ends, fmt="o", color="C0", capsize=3)


def _curves(record: Mapping[str, Any]) -> Figure | None:
  """Acceptance against answer tokens, and the fits out to ten times."""
  if not record["curves"]:
    return None
  figure = Figure(figsize=(7.5, 4.8), layout="constrained")
  axes = figure.add_subplot()
  for index, (name, found) in enumerate(record["curves"].items()):
    points = [p for p in found["points"] if p["acceptance"] is not None]
    x = [p["tokens"] for p in points]
    y = [p["acceptance"]["estimate"] for p in points]
    style: dict[str, Any] = dict(color=f"C{index}")
    axes.plot(x, y, "o", label=name, **style)
    for one in points:
      rate = one["acceptance"]
      if rate["low"] is not None:
        axes.vlines(one["tokens"], rate["low"], rate["high"], **style)
    if (fit := found["fit"]) is not None:
      line = np.geomspace(min(x), fit["tokens"], 100)
      axes.plot(line, scaling.curve(fit, line), "--", **style)
      axes.vlines(fit["tokens"], fit["low"], fit["high"], linewidth=3, **style)
  axes.set_xscale("log")
  axes.set_xlabel(
    "answer tokens trained on; the bar at the right is a forecast"
  )
  axes.set_ylabel(f"acceptance at temperature {record['temperature']:g}")
  axes.grid(alpha=0.3)
  axes.legend(frameon=False)
  return figure


def _formula(fit: Mapping[str, Any]) -> str:
  values = ", ".join(f"{k} = {v:.3g}" for k, v in fit["parameters"].items())
  return f"{fit['form']} with {values}, off by {fit['residual']:.4f}"


def _interval(found: Mapping[str, Any] | None, signed: bool = False) -> str:
  if found is None:
    return "–"
  sign = "+" if signed else ""
  text = f"{found['estimate']:{sign}.3f}"
  if found["low"] is not None:
    text += f" ({found['low']:{sign}.3f}, {found['high']:{sign}.3f})"
  return text
