"""The log of a training, a line of JSON each, and its pictures.

A line says the same after a resume, but for what a clock says: `TIMES`.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from specjax.evaluation import records

FILE = "log.jsonl"
TIMES = ("seconds", "tokens_per_s", "evaluate_s")


def read(path: Path) -> list[dict[str, Any]]:
  """Lines of a log; none where there is no file."""
  return records.read_lines(path) if path.exists() else []


def append(path: Path, entry: dict[str, Any]) -> None:
  """Adds a line, on the disk when this returns."""
  records.append(path, entry)


def cut(path: Path, step: int) -> None:
  """Drops what was logged after `step`, whole or not at all.

  A training that goes on from a checkpoint says those lines again.
  """
  lines = [line for line in read(path) if line["step"] <= step]
  text = "".join(json.dumps(line) + "\n" for line in lines)
  beside = path.with_suffix(".tmp")
  beside.write_text(text, encoding="utf-8")
  os.replace(beside, path)


def draw(
  lines: Sequence[dict[str, Any]], temperature: float, folder: Path
) -> list[Path]:
  """loss.png and acceptance.png of a log; those that it has figures for.

  Args:
    temperature: at which acceptance was measured.
  """
  pictures = []
  for name, figure in (
    ("loss.png", _losses(lines)),
    ("acceptance.png", _acceptance(lines, temperature)),
  ):
    if figure is not None:
      FigureCanvasAgg(figure)
      figure.savefig(folder / name, dpi=120)
      pictures.append(folder / name)
  return pictures


def _losses(lines) -> Figure | None:
  figure, axes = _axes("loss a position")
  for name, label in (("loss", "training"), ("held_out_loss", "held out")):
    found = [line for line in lines if name in line]
    if found:
      steps = [line["step"] for line in found]
      mark = "o-" if name == "held_out_loss" else "-"
      axes.plot(steps, [line[name] for line in found], mark, label=label)
  if not axes.lines:
    return None
  axes.legend(frameon=False)
  return figure


def _acceptance(lines, temperature: float) -> Figure | None:
  found = [line for line in lines if "acceptance" in line]
  if not found:
    return None
  figure, axes = _axes("acceptance by teacher forcing")
  axes.set_title(f"held out, T = {temperature:g}")
  steps = [line["step"] for line in found]
  for depth in range(len(found[0]["acceptance"])):
    rates = [line["acceptance"][depth] for line in found]
    axes.plot(steps, rates, "o-", label=f"depth {depth + 1}")
  axes.set_ylim(0, 1)
  axes.legend(frameon=False)
  return figure


def _axes(label: str):
  figure = Figure(figsize=(7, 4.5), layout="constrained")
  axes = figure.add_subplot()
  axes.set_xlabel("step")
  axes.set_ylabel(label)
  axes.grid(alpha=0.3)
  return figure, axes
