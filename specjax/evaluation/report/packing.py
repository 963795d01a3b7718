"""The data that the page's script reads, each text once."""

import math
from collections.abc import Hashable
from typing import Any

from specjax.evaluation.records import Answer

FATES = ("accepted", "refused", "unreached", "cut")


class _Table:
  """Values in the order in which they first came, each with its place."""

  def __init__(self):
    self._places: dict[Hashable, int] = {}

  def place(self, value: Hashable) -> int:
    return self._places.setdefault(value, len(self._places))

  @property
  def values(self) -> list[Any]:
    return list(self._places)


def pack(answers: list[Answer], traces: list[dict[str, Any]]) -> dict[str, Any]:
  """Answers and traces as short lists.

  Returns:
    texts: [text]; tokens: [[id, text]], which the others name by place;
    fates: [name];
    traces: the labels of each with `prompt`, a text, and `rounds`: [width,
      nodes, emitted], where a node is [slot, parent, token, p, q, fate] and an
      emitted token [token, slot or 0 of the target's own, p,
      [[token, p] of the alternatives]];
    answers: the labels, figures and texts of each.
  """
  texts, tokens = _Table(), _Table()
  rules = {answer.mode.name: answer.mode.rule for answer in answers}
  return {
    "fates": FATES,
    "traces": [
      {
        **{key: trace.get(key) for key in _LABELS},
        "rule": rules.get(trace.get("mode", "")),
        "prompt": texts.place(trace.get("prompt", "")),
        "rounds": [_round(entry, tokens) for entry in trace["rounds"]],
      }
      for trace in traces
    ],
    "answers": [
      {
        "mode": answer.mode.name,
        "question": answer.question_id,
        "category": answer.category,
        "turn": answer.turn,
        "repeat": answer.repeat,
        "prompt": texts.place(answer.prompt),
        "text": texts.place(answer.text),
        "tokens": answer.new_tokens,
        "passes": answer.passes,
        "repeated": _short(answer.repeated_8grams),
        "begun": answer.begun,
        "finish": answer.finish_reason,
      }
      for answer in answers
    ],
    "tokens": tokens.values,
    "texts": texts.values,
  }


_LABELS = ("mode", "question_id", "category", "turn", "repeat", "lossless")


def _round(entry: dict[str, Any], tokens: _Table) -> list[Any]:
  nodes = [
    [
      node["slot"],
      node["parent"],
      tokens.place((node["token"], node["text"])),
      _short(node["p"]),
      _short(node["q"]),
      FATES.index(node["fate"]),
    ]
    for node in entry["nodes"]
  ]
  emitted = [
    [
      tokens.place((token["token"], token["text"])),
      token["slot"] if token["by"] == "draft" else 0,
      _short(token["p"]),
      [
        [tokens.place((index, text)), _short(p)]
        for index, text, p in token["alternatives"]
      ],
    ]
    for token in entry["emitted"]
  ]
  return [entry["width"], nodes, emitted]


def _short(value: int | float | None) -> float | None:
  """Four digits; None of what JSON cannot hold."""
  if value is None or not math.isfinite(value):
    return None
  return float(f"{value:.4g}")
