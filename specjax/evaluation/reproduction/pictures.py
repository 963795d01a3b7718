"""Figures of papers as PNG; without pyplot's global state."""

import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from matplotlib import figure
from matplotlib.backends.backend_agg import FigureCanvasAgg

from specjax.evaluation.reproduction.cells import Figure
from specjax.evaluation.reproduction.results import Result


def png(drawing: Figure) -> bytes:
  """Ours as lines, printed points as crosses of the same colours."""
  canvas = figure.Figure(figsize=(7, 4.2), dpi=110, layout="constrained")
  FigureCanvasAgg(canvas)
  axes = canvas.subplots()
  for label, (x, y) in drawing.curves.items():
    axes.plot(x, y, label=label)
  axes.set_prop_cycle(None)
  for label, (x, y) in drawing.published.items():
    axes.plot(x, y, "x", label=label)
  if drawing.logx:
    axes.set_xscale("log")
  axes.set_title(drawing.title)
  axes.set_xlabel(drawing.xlabel)
  axes.set_ylabel(drawing.ylabel)
  axes.grid(alpha=0.3)
  if len(drawing.curves) + len(drawing.published) > 1:
    axes.legend(fontsize="x-small")
  buffer = io.BytesIO()
  canvas.savefig(buffer, format="png")
  return buffer.getvalue()


def draw(made: Iterable[Result]) -> dict[str, list[bytes]]:
  """A PNG of every figure, by paper, in order."""
  return {result.name: [png(f) for f in result.figures] for result in made}


def write(drawn: Mapping[str, Sequence[bytes]], folder: Path) -> list[Path]:
  """A PNG file a figure: the paper's name, then the figure's number."""
  paths = []
  for name, pictures in drawn.items():
    for index, picture in enumerate(pictures, 1):
      paths.append(folder / f"{name}_{index}.png")
      paths[-1].write_bytes(picture)
  return paths
