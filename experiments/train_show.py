"""What a training came to, as one table or as one JSON object."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from experiments import setup


def show(summary: Mapping[str, Any], path: Path, *, as_json: bool) -> None:
  """Prints the summary of a folder on standard output."""
  if as_json:
    print(json.dumps(summary))
    return
  table = Table(box=None, pad_edge=False)
  table.add_column(f"{summary['recipe']}, {summary['parameters']:,} weights")
  table.add_column("", justify="right")
  for label, value in _lines(summary):
    table.add_row(label, value)
  Console(highlight=False).print(table)
  setup.report(f"written to {path}; --draft_model={path} drafts with it")


def _lines(summary: Mapping[str, Any]):
  yield "conversations", f"{summary['conversations']:,}"
  used = summary["answer_tokens"]
  there = summary.get("answer_tokens_available", used)
  yield "answer tokens (of those available)", f"{used:,} ({there:,})"
  if drafted := summary.get("drafted_tokens"):
    yield "answer tokens of the draft's own", f"{drafted:,}"
  yield "steps (best)", f"{summary['steps']:,} ({summary['best_step']:,})"
  yield "laws learnt", f"{summary['positions']:,}"
  yield "training, min", f"{summary['training_s'] / 60:.1f}"
  rates = " ".join(f"{rate:.3f}" for rate in summary["acceptance"])
  label = f"held-out acceptance, temperature {summary['temperature']:g}"
  yield label, rates
  gamma = summary["num_speculative_tokens"]
  for one in summary["evaluation"]:
    at = f"temperature {one['temperature']:g}"
    length = f"{one['mean_acceptance_length']:.2f}"
    if one["low"] is not None:
      length += f" ({one['low']:.2f} to {one['high']:.2f})"
    yield f"tokens a round, chain of {gamma}, {at}", length
    if (held := one.get("held_out")) is not None:
      rates = " ".join(f"{rate:.3f}" for rate in held["acceptance"])
      yield f"acceptance on {held['texts']} answers, {at}", rates
    if (found := one.get("alpha")) and found["alpha"] is not None:
      yield f"alpha, {at}", f"{found['alpha']:.3f}"
