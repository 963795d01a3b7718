"""Plots of the acceptance command, as PNG; without pyplot's global state."""

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, ScalarFormatter

_BAND = 0.1  # wanted of measured over predicted
_MARKERS = "osD^vP*X"


def study(result: Mapping[str, Any], path: Path) -> None:
  """Speedup by draft length and acceptance by position, each temperature."""
  parts = result["temperatures"]
  figure = Figure(figsize=(4.6 * len(parts), 7), layout="constrained")
  axes = figure.subplots(2, len(parts), squeeze=False, sharey="row")
  lines = {
    "speedup": ("measured", "o-"),
    "predicted_speedup": ("of the rounds run", "s--"),
    "from_positions": ("of the rates by position", "^:"),
    "closed_form": ("closed form", "-"),
  }
  for column, part in enumerate(parts):
    above, below = axes[:, column]
    x = [entry["num_speculative_tokens"] for entry in part["lengths"]]
    for key, (label, style) in lines.items():
      y = [entry[key] for entry in part["lengths"]]
      points = [(a, b) for a, b in zip(x, y, strict=True) if b is not None]
      if points:
        above.plot(*zip(*points, strict=True), style, label=label)
    above.axhline(1, color="grey", linewidth=1)
    above.set_title(f"temperature {part['temperature']:g}")
    above.set_xlabel("num_speculative_tokens")
    kinds = {
      "acceptance_per_position": "kept",
      "acceptance_per_position_conditional": "kept, if reached",
    }
    for (key, label), marker in zip(kinds.items(), "os", strict=True):
      places = range(1, len(part[key]) + 1)
      shares = [math.nan if x is None else x for x in part[key]]
      below.plot(places, shares, marker=marker, label=label)
    below.set_ylim(0, 1.02)
    below.set_xlabel("position in the draft")
    for one in (above, below):
      one.xaxis.set_major_locator(MaxNLocator(integer=True))
      one.grid(alpha=0.3)
  axes[0][0].set_ylabel("speedup over plain decoding")
  axes[1][0].set_ylabel("share of the drafts")
  axes[0][0].legend(frameon=False)
  axes[1][0].legend(frameon=False)
  figure.suptitle(f"{result['environment']['model']}, {result['drafter']}")
  _save(figure, path)


def tree(result: Mapping[str, Any], path: Path) -> None:
  """Tokens a pass and predicted speedup of the best trees, by their size."""
  figure = Figure(figsize=(11, 4.4), layout="constrained")
  left, right = figure.subplots(1, 2)
  for index, part in enumerate(result["temperatures"]):
    x, tokens, speedups = (
      [line[key] for line in part["trees"]]
      for key in ("num_nodes", "tokens", "predicted_speedup")
    )
    colour = f"C{index}"
    style = dict(marker=_MARKERS[index % len(_MARKERS)], color=colour)
    left.plot(x, tokens, label=f"T = {part['temperature']:g}", **style)
    ran = part["mean_acceptance_length"]
    left.plot(result["num_nodes"], ran, "x", color=colour)
    right.plot(x, speedups, **style)
  left.set_ylabel("tokens a pass of the best tree; x: measured of this one")
  right.set_ylabel("predicted speedup over plain decoding")
  right.axhline(1, color="grey", linewidth=1)
  left.legend(frameon=False)
  for axes in (left, right):
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.set_xlabel("nodes")
    axes.grid(alpha=0.3)
  figure.suptitle(f"{result['environment']['model']}, {result['drafter']}")
  _save(figure, path)


def sweep(result: Mapping[str, Any], path: Path) -> None:
  """Measured over predicted time, and measured speedup, by draft length."""
  figure = Figure(figsize=(11, 4.4), layout="constrained")
  left, right = figure.subplots(1, 2)
  names = {c["name"]: None for c in result["cases"]}
  for index, name in enumerate(names):
    cases = [c for c in result["cases"] if c["name"] == name]
    x = [c["num_speculative_tokens"] for c in cases]
    style = dict(marker=_MARKERS[index % len(_MARKERS)], color=f"C{index}")
    if all(c["ratio"] is not None for c in cases):
      left.plot(x, [c["ratio"] for c in cases], label=name, **style)
    right.plot(x, [c["speedup"] for c in cases], **style)
    right.plot(
      x, [c["predicted_speedup"] for c in cases], color=f"C{index}", ls=":"
    )
  left.axhspan(1 - _BAND, 1 + _BAND, color="grey", alpha=0.15)
  left.set_ylabel("measured over predicted time")
  left.legend(frameon=False, fontsize=8)
  right.set_ylabel("speedup over plain; dotted: predicted")
  for axes in (left, right):
    axes.set_xlabel("num_speculative_tokens")
    axes.grid(alpha=0.3)
  figure.suptitle(str(result["environment"]["model"]))
  _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
  FigureCanvasAgg(figure)
  # No name and version of the library inside: equal runs give equal files.
  figure.savefig(path, dpi=144, metadata={"Software": None})


DRAW: dict[str, Callable[[Mapping[str, Any], Path], None]] = {
  "acceptance": study,
  "prediction": sweep,
  "tree": tree,
}
