"""Papers made again: their cells, figures, counts, and JSON of them."""

import dataclasses
import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from specjax.evaluation.reproduction import registry
from specjax.evaluation.reproduction.cells import (
  GROUPS,
  VERDICTS,
  Cell,
  Figure,
  Settings,
)


@dataclasses.dataclass(frozen=True)
class Result:
  """A paper made again.

  Attributes:
    name, title, source: the paper's.
    cells, figures: all of them; no figures where none were asked for.
    seconds: it took.
  """

  name: str
  title: str
  source: str
  cells: tuple[Cell, ...]
  figures: tuple[Figure, ...]
  seconds: float

  def to_json(self) -> dict[str, Any]:
    """Without figures; a number that is none (NaN) is null."""
    return {
      "paper": self.name,
      "title": self.title,
      "source": self.source,
      "seconds": self.seconds,
      "cells": [_cell(cell) for cell in self.cells],
    }


def make(
  names: Sequence[str], settings: Settings, *, figures: bool
) -> Iterator[Result]:
  """Each paper in turn, as it is done."""
  for name in names:
    settings.say(name)
    paper = registry.load(name)
    begin = time.perf_counter()
    cells = tuple(paper.cells(settings))
    drawn = tuple(paper.figures(settings)) if figures else ()
    seconds = time.perf_counter() - begin
    yield Result(paper.name, paper.title, paper.source, cells, drawn, seconds)


def counts(results: Iterable[Result]) -> dict[str, dict[str, int]]:
  """{group: {verdict: cells}}, every group and verdict named."""
  found = Counter(
    (cell.group, cell.verdict) for result in results for cell in result.cells
  )
  return {
    group: {verdict: found[group, verdict] for verdict in VERDICTS}
    for group in GROUPS
  }


def differing(results: Iterable[Result]) -> list[tuple[Result, Cell]]:
  """Cells out of their tolerance."""
  return [
    (result, cell)
    for result in results
    for cell in result.cells
    if cell.verdict == "differs"
  ]


def _cell(cell: Cell) -> dict[str, Any]:
  fields = dataclasses.asdict(cell)
  fields |= {"difference": cell.difference, "verdict": cell.verdict}
  return {
    key: None if isinstance(value, float) and math.isnan(value) else value
    for key, value in fields.items()
  }
