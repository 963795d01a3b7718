"""A study's plots, as PNG files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib import colormaps, rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

_STYLE = {
  "font.family": "DejaVu Sans",  # comes with matplotlib
  "font.size": 11,
  "axes.titlesize": 11,
  "axes.grid": True,
  "axes.axisbelow": True,
  "grid.alpha": 0.3,
  "legend.frameon": False,
  "legend.fontsize": 10,
}
_XLABELS = {
  "batch": "concurrent sequences",
  "gamma": "num_speculative_tokens",
  "context": "context at the start (tokens)",
}
_MARKERS = "osD^vP*X<>"


def draw(found: Mapping[str, Any], folder: Path) -> list[Path]:
  """speedup_by_batch, _gamma and _context, and where_time_goes."""
  with rc_context(_STYLE):
    drawn = {f"speedup_by_{axis}": _speedup(found, axis) for axis in _XLABELS}
    drawn["where_time_goes"] = _shares(found)
    return [
      _save(figure, folder / f"{name}.png") for name, figure in drawn.items()
    ]


def _title(case: Mapping[str, Any], without: str = "") -> str:
  parts = {
    "batch": f"{case['batch']} sequences",
    "context": f"context {case['context']:,}",
    "gamma": f"γ {case['gamma']}",
  }
  kept = [text for name, text in parts.items() if name != without]
  ways = f"{case['ways']} × " if case["ways"] > 1 else ""
  return (
    f"{case['target']} on {ways}{case['device']}, {', '.join(kept)}\n"
    f"acceptance {case['acceptance']}"
  )


def _speedup(found: Mapping[str, Any], axis: str) -> Figure:
  figure = Figure(figsize=(8.5, 4.8), layout="constrained")
  axes = figure.subplots()
  values = [row["value"] for row in found[axis]]
  for index, (name, curves) in enumerate(found["drafters"].items()):
    axes.plot(
      values,
      curves[axis],
      marker=_MARKERS[index % len(_MARKERS)],
      color=colormaps["tab10"](index % 10),
      markersize=5,
      linewidth=2.2 if name == found["case"]["draft"] else 1.2,
      label=name,
    )
  axes.axhline(1, color="0.3", linewidth=1)
  if axis != "gamma":
    _powers(axes, values)
  beyond = [row["value"] for row in found[axis] if not row["fits"]]
  if beyond:
    axes.axvspan(
      min(beyond) * 0.75,
      values[-1] * 1.1,
      color="0.5",
      alpha=0.15,
      linewidth=0,
      label=f"no room with {found['case']['draft']}",
    )
  axes.set_ylim(bottom=0)
  axes.set_xlabel(_XLABELS[axis])
  axes.set_ylabel("speedup over plain decoding (times)")
  axes.set_title(_title(found["case"], axis))
  figure.legend(loc="outside right upper")
  return figure


def _shares(found: Mapping[str, Any]) -> Figure:
  figure = Figure(figsize=(8.5, 4.8), layout="constrained")
  axes = figure.subplots()
  values = [row["value"] for row in found["batch"]]
  lines = {
    "draft_share": "of the time, spent drafting",
    "idle_share": "of a verify pass, arithmetic idle",
  }
  for (name, label), marker in zip(lines.items(), _MARKERS, strict=False):
    shares = [100 * row[name] for row in found["batch"]]
    axes.plot(values, shares, marker=marker, markersize=5, label=label)
  _powers(axes, values)
  axes.set_ylim(0, 100)
  axes.set_xlabel(_XLABELS["batch"])
  axes.set_ylabel("share (%)")
  axes.set_title(
    f"{found['case']['draft']} for {_title(found['case'], 'batch')}"
  )
  figure.legend(loc="outside right upper")
  return figure


def _powers(axes, values) -> None:
  """A logarithmic axis that names the values tried."""
  axes.set_xscale("log", base=2)
  axes.set_xticks(values)
  axes.xaxis.set_minor_locator(NullLocator())
  axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: _short(float(x))))


def _short(value: float) -> str:
  whole = round(value)
  return f"{whole // 1024}k" if whole and whole % 1024 == 0 else str(whole)


def _save(figure: Figure, path: Path) -> Path:
  FigureCanvasAgg(figure)
  figure.savefig(path, dpi=144, metadata={"Software": None})
  return path
