"""Prompts from flags and from JSONL files."""

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from specjax.evaluation import text_files


@dataclasses.dataclass(frozen=True)
class Question:
  """One prompt, or the user's turns of one conversation.

  Attributes:
    turns: what the user says.
    labels: question_id and category, where the file has them.
    begun: the beginning of the last turn's answer, which the model goes on
      with; no part of what is counted.
  """

  turns: tuple[str, ...]
  labels: dict[str, Any] = dataclasses.field(default_factory=dict)
  begun: str = ""


def read(prompts: Sequence[str], path: str | None) -> list[Question]:
  """Questions of --prompt and then of --prompt_file.

  Raises:
    ValueError: none, an empty one, or a line that does not parse or is no
      UTF-8, by number.
  """
  questions = [Question((prompt,)) for prompt in prompts]
  if path is not None:
    questions += _read_file(path)
  if not questions:
    raise ValueError("give --prompt=TEXT or --prompt_file=FILE.jsonl")
  for number, question in enumerate(questions, 1):
    if not all(turn.strip() for turn in question.turns):
      which = f"prompt {number}" if len(questions) > 1 else "the prompt"
      raise ValueError(f"{which} is empty")
  return questions


def _read_file(path: str) -> list[Question]:
  questions = [
    _question(line, f"{path}, line {number}")
    for number, line in enumerate(text_files.read(path).split("\n"), 1)
    if line.strip()
  ]
  if not questions:
    raise ValueError(f"{path} holds no prompt")
  return questions


def _question(line: str, where: str) -> Question:
  try:
    entry = json.loads(line, parse_constant=_no_number)
  except (ValueError, RecursionError) as error:
    raise ValueError(f"{where}: no JSON ({error})") from error
  if isinstance(entry, dict):
    turns = entry.get("turns", [entry.get("prompt")])
    if isinstance(turns, list) and turns:
      if all(isinstance(turn, str) for turn in turns):
        keys = ("question_id", "category")
        labels = {key: entry[key] for key in keys if key in entry}
        for key, label in labels.items():
          if not isinstance(label, int | str):
            raise ValueError(
              f"{where}: {key} must be a text or an integer, got {label!r:.40}"
            )
        begun = entry.get("begun", "")
        if not isinstance(begun, str):
          raise ValueError(f"{where}: begun must be a text, got {begun!r:.40}")
        return Question(tuple(turns), labels, begun)
  raise ValueError(
    f'{where}: needs {{"prompt": TEXT}} or Spec-Bench\'s {{"question_id": ...,'
    ' "turns": [TEXT, ...]}'
  )


def _no_number(text: str):
  raise ValueError(f"{text} is no JSON number")
