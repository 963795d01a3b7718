"""All that a run's folder shows, computed from its records."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from specjax.evaluation import records, report
from specjax.evaluation.costs import costs
from specjax.evaluation.costs.costs import Costs
from specjax.evaluation.figures import plots, summary, tables, vllm_metrics
from specjax.evaluation.records import Answer, Mode
from specjax.evaluation.runs import answer_files, differences, run_folder

_WIDTH = 140  # characters of table.txt


def write(folder: Path) -> dict[str, Any]:
  """Writes all that follows from a run's records, in place of old files.

  That is summary.json, table.txt, table.tex, plots, the answers in Spec-Bench's
  schema, vLLM's figures and report.html.

  Returns:
    the summary.

  Raises:
    ValueError: no folder of a run, no answers in it, or it cannot be written.
  """
  stated = run_folder.read_config(folder)
  lines = _lines(folder / run_folder.COSTS)
  answers = [predicted(a, lines) for a in records.read(folder)]
  if not answers:
    raise ValueError(f"{folder} holds no answers yet")
  figures = summary.summarize(
    answers,
    costs=costs_json(records.modes(answers), lines),
    config=stated["config"],
    near_ties=differences.near_ties(folder),
  )
  text = json.dumps(figures, ensure_ascii=False)
  (folder / run_folder.SUMMARY).write_text(text + "\n", encoding="utf-8")
  with open(folder / "table.txt", "w", encoding="utf-8") as file:
    Console(file=file, width=_WIDTH).print(*tables.terminal(figures))
  (folder / "table.tex").write_text(tables.latex(figures), encoding="utf-8")
  plots.draw(figures, answers, folder / "plots")
  answer_files.write(answers, folder / "answers")
  vllm_metrics.write(answers, folder)
  report.write(folder)
  return figures


def predicted(answer: Answer, lines: Sequence[dict[str, Any]]) -> Answer:
  """With `predicted_s`, where the costs of its rounds were measured."""
  own = _costs(answer.mode, lines)
  if own is None or not answer.rounds:
    return answer
  if any(width not in own.passes for *_, width in answer.rounds):
    return answer
  seconds = costs.predict_seconds(answer.rounds, own, answer.prompt_tokens)
  return dataclasses.replace(answer, predicted_s=seconds)


def costs_json(
  modes: Sequence[Mode], lines: Sequence[dict[str, Any]]
) -> dict[str, Any]:
  """{mode: {passes, drafts, bookkeeping}} of the modes that were measured.

  Seconds as in `Costs`: passes by width and context, drafts by drafted count
  and context (after a round that did not keep every node). bookkeeping is the
  share of a round that is neither; None where no whole rounds were timed.
  """
  found = {}
  for mode in modes:
    if (own := _costs(mode, lines)) is not None:
      found[mode.name] = {
        "passes": own.passes,
        "drafts": own.drafts[False],
        "bookkeeping": costs.bookkeeping(lines, own, mode.name),
      }
  return found


def _costs(mode: Mode, lines: Sequence[dict[str, Any]]) -> Costs | None:
  if not any(line.get("mode") == mode.name for line in lines):
    return None
  return Costs.from_samples(lines, mode.name)


def _lines(file: Path) -> list[dict[str, Any]]:
  return records.read_lines(file) if file.exists() else []
