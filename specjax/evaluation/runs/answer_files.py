"""Answers in the schema of FastChat and Spec-Bench, a file a mode.

Fields and their meaning follow Spec-Bench's evaluation/eval.py, so that its
speed.py reads them; `wall_time` there includes prefill and leaves out nothing.
Here it leaves out compilation.
"""

import json
import re
import time
import uuid
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from specjax.evaluation import records
from specjax.evaluation.records import Answer, Mode


def write(answers: Iterable[Answer], folder: Path) -> dict[str, Path]:
  """Writes `<folder>/<mode>.jsonl`, a line a question, in place of old ones.

  A conversation that is not complete yet is left out.

  Returns:
    the files by the names of their modes; plain decoding is the baseline that
    Spec-Bench's speed.py wants as `--base-path`.
  """
  answers = list(answers)
  folder.mkdir(parents=True, exist_ok=True)
  files = file_names(records.modes(answers))
  for name, file in files.items():
    mine = [answer for answer in answers if answer.mode.name == name]
    lines = [json.dumps(line) + "\n" for line in _lines(mine)]
    (folder / file).write_text("".join(lines), encoding="utf-8")
  return {name: folder / file for name, file in files.items()}


def file_names(modes: Iterable[Mode]) -> dict[str, str]:
  """A file name for each mode, of letters that every system allows."""
  names: dict[str, str] = {}
  for mode in modes:
    stem = base = re.sub(r"[^\w.=+-]+", "_", mode.name, flags=re.ASCII)
    number = 1
    while f"{stem}.jsonl" in names.values():
      number += 1
      stem = f"{base}_{number}"
    names[mode.name] = f"{stem}.jsonl"
  return names


def _lines(answers: list[Answer]) -> Iterable[dict[str, Any]]:
  questions: dict[str, list[Answer]] = defaultdict(list)
  turns: dict[str, int] = defaultdict(int)
  for answer in answers:
    questions[answer.question_id].append(answer)
    name = answer.question_id
    turns[name] = max(turns[name], answer.turn + 1)
  for name, mine in questions.items():
    choices = [
      choice
      for repeat in sorted({answer.repeat for answer in mine})
      if (choice := _choice(mine, repeat, turns[name])) is not None
    ]
    if choices:
      yield _line(mine[0], choices)


def _line(first: Answer, choices: list[dict[str, Any]]) -> dict[str, Any]:
  name = f"{first.environment.get('model', '')} {first.mode.name}"
  answer = uuid.uuid5(uuid.NAMESPACE_URL, f"{name} {first.question_id}")
  return {
    "question_id": _number(first.question_id),
    "category": first.category,
    "answer_id": answer.hex,
    "model_id": name,
    "choices": choices,
    "tstamp": time.time(),
  }


def _choice(
  answers: list[Answer], repeat: int, turns: int
) -> dict[str, Any] | None:
  mine = sorted(
    (answer for answer in answers if answer.repeat == repeat),
    key=lambda answer: answer.turn,
  )
  if len(mine) < turns:
    return None
  return {
    "index": repeat,
    "turns": [answer.text for answer in mine],
    "decoding_steps": [answer.passes for answer in mine],
    "new_tokens": [answer.new_tokens for answer in mine],
    "wall_time": [answer.prefill_s + answer.decode_s for answer in mine],
    "accept_lengths": [
      length for answer in mine for length in answer.stats.accept_lengths
    ],
  }


def _number(name: str) -> int | str:
  """Spec-Bench numbers its questions."""
  return int(name) if name.isascii() and name.isdigit() else name
