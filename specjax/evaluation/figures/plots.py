"""A run's plots, as PNG files; drawn without pyplot's global state."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib import colormaps, rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from specjax.evaluation.figures.wording import mode_name
from specjax.evaluation.records import Answer, Mode

_STYLE = {
  "font.family": "DejaVu Sans",  # comes with matplotlib
  "font.size": 11,
  "axes.titlesize": 12,
  "axes.grid": True,
  "axes.axisbelow": True,
  "grid.alpha": 0.3,
  "legend.frameon": False,
  "legend.fontsize": 10,
}
_MARKERS = "osD^vP*X<>"
_PREDICTION = "predicted_against_measured"
_BAND = 0.1  # predicted within this share of measured
_LEAST_JUDGED = 20  # rounds; a share of fewer says nothing

Entries = Sequence[Mapping[str, Any]]


def draw(
  summary: Mapping[str, Any], answers: Sequence[Answer], folder: Path
) -> list[Path]:
  """Draws what the run has figures for, in place of old files.

  speedup_by_class, acceptance_by_position and emitted_per_round are drawn for
  each law asked for (the second law's are called speedup_by_class_2 and so on),
  predicted_against_measured once.

  Returns:
    the files, in the order in which they are to be looked at.
  """
  folder.mkdir(parents=True, exist_ok=True)
  for name in (*_OF_A_LAW, _PREDICTION):
    for old in folder.glob(f"{name}*.png"):
      old.unlink()
  model = summary["environment"].get("model") or "several models"
  laws: dict[str, list[Mapping[str, Any]]] = {}
  for entry in summary["modes"]:
    laws.setdefault(entry["law"], []).append(entry)
  wanted: list[tuple[str, Figure | None]] = []
  with rc_context(_STYLE):
    for number, (law, entries) in enumerate(laws.items(), 1):
      end = "" if number == 1 else f"_{number}"
      title = f"{model}, {law}"
      for name, make in _OF_A_LAW.items():
        wanted.append((name + end, make(entries, title)))
    prediction = _prediction(summary["modes"], answers, model)
    wanted.append((_PREDICTION, prediction))
    return [
      _save(figure, folder / f"{name}.png")
      for name, figure in wanted
      if figure is not None
    ]


def _speedup(entries: Entries, title: str) -> Figure | None:
  """Speedup over plain decoding by class of prompt, with intervals."""
  entries = [e for e in entries if e["speedup"]]
  if not entries:
    return None
  classes = list({name: None for e in entries for name in e["categories"]})
  rows = ["headline", *classes]
  of_one = 0.17 if len(entries) <= 8 else 0.11  # inches
  height = max(3.2, 1.6 + len(rows) * (0.22 + of_one * len(entries)))
  figure, axes = _figure(9.5, height)
  for index, entry in enumerate(entries):
    shift = (index - (len(entries) - 1) / 2) * 0.8 / len(entries)
    parts = [entry["headline"], *(entry["categories"].get(c) for c in classes)]
    points = [
      (row + shift, part["speedup"])
      for row, part in enumerate(parts)
      if part and part["speedup"]
    ]
    x = [ratio["estimate"] for _, ratio in points]
    bounds = [
      [r["estimate"] - (r["low"] or r["estimate"]) for _, r in points],
      [(r["high"] or r["estimate"]) - r["estimate"] for _, r in points],
    ]
    axes.errorbar(
      x,
      [y for y, _ in points],
      xerr=bounds,
      fmt=_MARKERS[index % len(_MARKERS)],
      color=_color(index, len(entries)),
      markersize=5 if len(entries) <= 8 else 4,
      capsize=2.5 if len(entries) <= 8 else 1.5,
      linewidth=1.3,
      label=_name(entry),
    )
  for row in range(1, len(rows)):
    axes.axhline(row - 0.5, color="0.85", linewidth=0.8)
  axes.axvline(1, color="0.3", linewidth=1)
  axes.set_yticks(range(len(rows)), rows)
  axes.set_ylim(len(rows) - 0.5, -0.5)
  axes.set_xlim(left=min(0.8, *axes.get_xlim()))
  axes.grid(axis="y", visible=False)
  axes.set_xlabel(
    "speedup over plain decoding of the same run (times)\n"
    "geometric mean and 95 % interval over prompts; no bar: one prompt"
  )
  axes.set_title(f"Speedup by class of prompt\n{title}")
  _legend(figure)
  return figure


def _acceptance(entries: Entries, title: str) -> Figure | None:
  """Acceptance by position, unconditional and conditional."""
  entries = [e for e in entries if e["pooled"]["drafted"]]
  if not entries:
    return None
  figure = Figure(figsize=(11.5, max(4.6, 1.2 + 0.26 * len(entries))))
  left, right = figure.subplots(1, 2, sharey=True, sharex=True)
  kinds = (
    (left, "acceptance_per_position", "of the rounds that drafted"),
    (
      right,
      "acceptance_per_position_conditional",
      f"of the rounds that kept all before it (at least {_LEAST_JUDGED})",
    ),
  )
  for axes, key, kind in kinds:
    for index, entry in enumerate(entries):
      axes.plot(
        *_rates(entry["pooled"], key),
        marker=_MARKERS[index % len(_MARKERS)],
        color=_color(index, len(entries)),
        markersize=5,
        linewidth=1.4,
        label=_name(entry) if axes is left else None,
      )
    axes.set_title(kind, fontsize=11)
    axes.set_xlabel("position in the draft")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
  left.set_ylim(-0.03, 1.03)
  left.yaxis.set_major_formatter(PercentFormatter(1))
  left.set_ylabel("draft tokens kept")
  heading = "Acceptance by position in the draft, all answers"
  figure.suptitle(f"{heading}\n{title}", fontsize=12)
  _legend(figure)
  return figure


def _rates(
  figures: Mapping[str, Any], key: str
) -> tuple[list[int], list[float]]:
  """(positions from 1, rates) that enough rounds stand behind."""
  conditional = key.endswith("conditional")
  rates = figures[key]
  shown = [
    position
    for position, rounds in enumerate(figures["judged_per_position"])
    if not conditional or rounds >= _LEAST_JUDGED
  ]
  return [position + 1 for position in shown], [rates[p] for p in shown]


def _emitted(entries: Entries, title: str) -> Figure | None:
  """Shares of the rounds by tokens emitted, a bar a mode."""
  entries = [e for e in entries if e["pooled"]["drafted"]]
  if not entries:
    return None
  counts = [
    {int(n): k for n, k in e["pooled"]["emitted_per_round"].items()}
    for e in entries
  ]
  sizes = sorted({size for row in counts for size in row})
  figure, axes = _figure(9.5, max(2.8, 1.7 + 0.38 * len(entries)))
  colors = colormaps["viridis"].resampled(max(2, len(sizes)))
  starts = [0.0] * len(entries)
  for index, size in enumerate(sizes):
    shares = [row.get(size, 0) / sum(row.values()) for row in counts]
    axes.barh(
      range(len(entries)),
      shares,
      left=starts,
      height=0.72,
      color=colors(index / max(1, len(sizes) - 1)),
      label=str(size),
    )
    starts = [a + b for a, b in zip(starts, shares, strict=True)]
  for row, entry in enumerate(entries):
    mean = f"{entry['pooled']['mean_acceptance_length']:.2f}"
    axes.text(1.01, row, mean, va="center", fontsize=10)
  axes.text(1.01, -0.75, "mean", va="center", fontsize=10, color="0.3")
  axes.set_yticks(range(len(entries)), [_name(e) for e in entries])
  axes.set_ylim(len(entries) - 0.5, -0.5)
  axes.set_xlim(0, 1)
  axes.grid(visible=False)
  axes.xaxis.set_major_formatter(PercentFormatter(1))
  axes.set_xlabel("share of the rounds")
  axes.set_title(f"Tokens emitted a round, all answers\n{title}")
  _legend(figure, "tokens")
  return figure


def _prediction(
  entries: Entries, answers: Sequence[Answer], model: str
) -> Figure | None:
  """Predicted time of decoding against measured: dots answers, marks modes."""
  known = [a for a in answers if a.predicted_s is not None and a.new_tokens]
  if not known:
    return None
  names = {a.mode.name for a in known}
  entries = [e for e in entries if e["mode"]["name"] in names]
  figure, axes = _figure(9.5, max(5.4, 1.4 + 0.26 * len(entries)))
  every = []
  for index, entry in enumerate(entries):
    color = _color(index, len(entries))
    own = [a for a in known if a.mode.name == entry["mode"]["name"]]
    points = [
      (
        1e3 * a.decode_s / a.new_tokens,
        1e3 * (a.predicted_s or 0) / a.new_tokens,
      )
      for a in own
    ]
    every += points
    x, y = zip(*points, strict=True)
    axes.scatter(x, y, s=9, color=color, alpha=0.35, linewidths=0)
    tokens = sum(a.new_tokens for a in own)
    axes.scatter(
      1e3 * sum(a.decode_s for a in own) / tokens,
      1e3 * sum(a.predicted_s or 0 for a in own) / tokens,
      s=60,
      marker=_MARKERS[index % len(_MARKERS)],
      color=color,
      edgecolors="black",
      linewidths=0.7,
      zorder=3,
      label=f"{_name(entry)}, {entry['law']}",
    )
  low, high = 0.9 * min(map(min, every)), 1.1 * max(map(max, every))
  ends = [low, high]
  axes.plot(ends, ends, color="0.3", linewidth=1, label="equal")
  axes.fill_between(
    ends,
    [(1 - _BAND) * end for end in ends],
    [(1 + _BAND) * end for end in ends],
    color="0.5",
    alpha=0.15,
    linewidth=0,
    label="within 10 %",
  )
  axes.set_xlim(low, high)
  axes.set_ylim(low, high)
  axes.set_xlabel("measured (ms a token)")
  axes.set_ylabel("predicted from separate calls (ms a token)")
  axes.set_title(
    f"Decoding time, predicted against measured\n{model};"
    " dots are answers, marks all of a mode's"
  )
  _legend(figure)
  return figure


_OF_A_LAW: dict[str, Callable[[Entries, str], Figure | None]] = {
  "speedup_by_class": _speedup,
  "acceptance_by_position": _acceptance,
  "emitted_per_round": _emitted,
}


def _figure(width: float, height: float) -> tuple[Figure, Axes]:
  figure = Figure(figsize=(width, height))
  return figure, figure.subplots()


def _legend(figure: Figure, title: str | None = None) -> None:
  """Beside the axes, where it hides nothing."""
  figure.set_layout_engine("constrained")
  figure.legend(loc="outside right upper", title=title)


def _save(figure: Figure, path: Path) -> Path:
  FigureCanvasAgg(figure)
  # No name and version of the library inside: equal runs give equal files.
  figure.savefig(path, dpi=144, metadata={"Software": None})
  return path


def _color(index: int, count: int) -> Any:
  return colormaps["tab10" if count <= 10 else "tab20"](index)


def _name(entry: Mapping[str, Any]) -> str:
  return mode_name(Mode(**entry["mode"]))
