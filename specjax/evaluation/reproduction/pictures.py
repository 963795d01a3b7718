"""Figures of papers as PNG; without pyplot's global state."""

import io

from matplotlib import figure
from matplotlib.backends.backend_agg import FigureCanvasAgg

from specjax.evaluation.reproduction.cells import Figure


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
