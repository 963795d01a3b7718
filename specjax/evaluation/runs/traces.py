"""Traces of a few answers: decoded once more, each round looked at."""

from collections.abc import Sequence
from typing import Any

from specjax.api.traces import EmittedTrace, RoundTrace
from specjax.evaluation import records
from specjax.evaluation.runs.benchmark import Run, Task
from specjax.evaluation.runs.decoders import OwnDecoder
from specjax.evaluation.runs.run_folder import TRACES, RunFolder
from specjax.text import Tokenizer


def write(
  run: Run, decoders: Sequence[OwnDecoder], folder: RunFolder, count: int
) -> None:
  """Adds what traces.jsonl lacks: `count` answers of each mode.

  The answers have been measured; looking at each round would change their
  times. Draws are the same ones.
  """
  file = folder.path / TRACES
  there = records.read_lines(file) if file.exists() else []
  names = ("mode", "question_id", "turn", "repeat")
  known = {tuple(entry[name] for name in names) for entry in there}
  for task in choose(run.tasks, count):
    for decoder in decoders:
      key = (decoder.mode.name, task.id, task.turn, task.repeat)
      if key not in known:
        records.append(file, _trace(run, task, decoder))


def choose(tasks: Sequence[Task], count: int) -> list[Task]:
  """First turns, of as many categories as there are, then others."""
  first = [t for t in tasks if not t.turn and not t.repeat]
  seen: dict[str, int] = {}
  ranks = []
  for task in first:
    category = task.question.labels["category"]
    seen[category] = seen.get(category, 0) + 1
    ranks.append(seen[category])
  order = sorted(range(len(first)), key=lambda place: ranks[place])
  return [first[place] for place in order[:count]]


def _trace(run: Run, task: Task, decoder: OwnDecoder) -> dict[str, Any]:
  ids = run.prompt(task, decoder.mode)
  key = task.key(run.plan.seed)
  stream = decoder.stream(ids, run.plan.max_new_tokens, key, record=True)
  stream.run_to_end()
  (rounds,), output = stream.traces, stream.output
  return {
    "mode": decoder.mode.name,
    "question_id": task.id,
    "category": task.question.labels["category"],
    "turn": task.turn,
    "repeat": task.repeat,
    "prompt": task.question.turns[task.turn],
    "text": output.texts[0],
    "lossless": decoder.mode.lossless,
    "rounds": _rounds(rounds, run.tokenizer),
  }


def _rounds(
  rounds: Sequence[RoundTrace], tokenizer: Tokenizer
) -> list[dict[str, Any]]:
  """An object a round: its width, its nodes, what it emitted."""
  return [
    {
      "width": trace.width,
      "nodes": [
        {
          "slot": node.slot,
          "parent": node.parent,
          "token": node.token,
          "text": _text(tokenizer, node.token),
          "p": _short(node.p),
          "q": None if node.q is None else _short(node.q),
          "fate": node.fate,
        }
        for node in trace.nodes
      ],
      "emitted": [_emitted(token, tokenizer) for token in trace.emitted],
    }
    for trace in rounds
  ]


def _emitted(token: EmittedTrace, tokenizer: Tokenizer) -> dict[str, Any]:
  return {
    "token": token.token,
    "text": _text(tokenizer, token.token),
    "by": "target" if token.slot is None else "draft",
    "slot": token.slot,
    "p": _short(token.p),
    "alternatives": [
      [other, _text(tokenizer, other), _short(p)]
      for other, p in token.alternatives
    ],
  }


def _text(tokenizer: Tokenizer, token: int) -> str:
  return tokenizer.decode([token], skip_special=False)


def _short(p: float) -> float:
  """Four digits that count: a report holds thousands of them."""
  return float(f"{p:.4g}")
