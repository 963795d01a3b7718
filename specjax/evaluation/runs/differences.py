"""Where greedy answers part from plain decoding's: near-ties, or faults."""

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from specjax.checkpoints.loaded import LoadedModel
from specjax.evaluation.exactness import near_ties as exactness
from specjax.evaluation.records import Answer

FILE = "near_ties.json"
Place = tuple[str, int, int]


def write(
  folder: Path,
  target: LoadedModel,
  answers: Sequence[Answer],
  prompt_ids: Callable[[Answer], Sequence[int]],
) -> None:
  """Looks at every greedy answer of this project that plain decoding's is not.

  Writes {mode: [{question_id, turn, repeat, position, plain, other, gap,
  kind}]} of every mode that was looked at.

  Args:
    folder: of the run.
    target: what decoded.
    answers: all of the run.
    prompt_ids: of an answer's prompt, the conversation before it included.
  """
  plain = {a.key[1:]: a for a in answers if _is_own(a) and a.mode.is_plain}
  found: dict[str, list[dict[str, Any]]] = {}
  seen: dict[Any, exactness.Difference | None] = {}
  for answer in sorted(answers, key=lambda a: a.turn):
    if not _is_own(answer) or answer.mode.is_plain:
      continue
    parted = found.setdefault(answer.mode.name, [])
    conversation = answer.question_id, answer.repeat
    if any((p["question_id"], p["repeat"]) == conversation for p in parted):
      continue  # it answers another prompt
    beside = plain.get(answer.key[1:])
    if beside is None or beside.token_ids == answer.token_ids:
      continue
    ids = tuple(prompt_ids(answer))
    same = (ids, beside.token_ids, answer.token_ids)
    if same not in seen:  # repeats of a greedy answer are alike
      seen[same] = exactness.classify(target.model, target.params, *same)
    if (difference := seen[same]) is not None:
      place = ("question_id", "turn", "repeat")
      where = {name: getattr(answer, name) for name in place}
      parted.append({**where, **dataclasses.asdict(difference)})
  (folder / FILE).write_text(json.dumps(found) + "\n", encoding="utf-8")


def near_ties(folder: Path) -> dict[str, set[Place]]:
  """The answers that part at a near-tie, of every mode that was looked at."""
  file = folder / FILE
  if not file.exists():
    return {}
  found = json.loads(file.read_text(encoding="utf-8"))
  return {
    mode: {
      (p["question_id"], p["turn"], p["repeat"])
      for p in parted
      if p["kind"] == "near-tie"
    }
    for mode, parted in found.items()
  }


def _is_own(answer: Answer) -> bool:
  mode = answer.mode
  return mode.system == "specjax" and mode.temperature == 0
