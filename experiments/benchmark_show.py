"""Progress on stderr, and the summary at the end."""

import collections
import contextlib
import json
import time
from collections.abc import Callable, Generator
from pathlib import Path

from rich.console import Console
from rich.progress import (
  BarColumn,
  MofNCompleteColumn,
  Progress,
  TextColumn,
  TimeElapsedColumn,
  TimeRemainingColumn,
)

from specjax.evaluation.figures import tables
from specjax.evaluation.records import Answer
from specjax.evaluation.runs import benchmark, results

_WIDTH = 140  # where no terminal says
_LAST = 16  # answers, for the estimate of the time that is left
_SPEED_OVER_S = 600.0


@contextlib.contextmanager
def progress(run: benchmark.Run) -> Generator[Callable[[Answer], None]]:
  """Shows each answer that it is called with.

  A moving bar in a terminal; elsewhere a line an answer.
  """
  console = Console(stderr=True, highlight=False, soft_wrap=True)
  left = run.total - run.done
  if left:
    console.print(f"{left} answers to measure; the first ones compile")
  if not console.is_terminal:
    clock = _Clock(run)

    def line(answer: Answer) -> None:
      console.print(f"{_line(run, answer)}{clock.left()}", markup=False)

    yield line
    return
  columns = (
    TextColumn("{task.description}", markup=False),
    BarColumn(),
    MofNCompleteColumn(),
    TimeElapsedColumn(),
    TimeRemainingColumn(),
  )
  bar = Progress(*columns, console=console, speed_estimate_period=_SPEED_OVER_S)
  with bar:
    task = bar.add_task("compiling", total=run.total, completed=run.done)

    def show(answer: Answer) -> None:
      bar.update(task, completed=run.done, description=_what(answer))

    yield show


def report(output: str, *, as_json: bool) -> int:
  """Writes all results of a folder from its records, and prints the table."""
  summary = results.write(Path(output))
  if as_json:
    print(json.dumps(summary, ensure_ascii=False))
    return 0
  console = Console(highlight=False)
  if not console.is_terminal:
    console = Console(highlight=False, width=_WIDTH)
  console.print(*tables.terminal(summary), sep="\n")
  console.print(f"written to {output}", markup=False)
  return 0


class _Clock:
  """Estimates the time that is left from what the last answers took."""

  def __init__(self, run: benchmark.Run):
    self._run = run
    self._times = collections.deque([time.monotonic()], maxlen=_LAST)

  def left(self) -> str:
    self._times.append(time.monotonic())
    seconds = self._times[-1] - self._times[0]
    each = seconds / (len(self._times) - 1)
    rest = each * (self._run.total - self._run.done)
    return f"; about {rest / 60:.0f} min left" if rest > 60 else ""


def _what(answer: Answer) -> str:
  turn = f" turn {answer.turn + 1}" if answer.turn else ""
  return f"{answer.question_id}{turn}, {answer.mode.name}"


def _line(run: benchmark.Run, answer: Answer) -> str:
  speed = answer.tokens_per_s
  figures = "" if speed is None else f", {speed:.1f} tokens/s"
  if answer.compile_s > 1:
    figures += f" (compiled in {answer.compile_s:.0f} s)"
  return f"[{run.done}/{run.total}] {_what(answer)}{figures}"
