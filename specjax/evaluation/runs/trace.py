"""Traces of rounds as JSON, for the report's viewer."""

from collections.abc import Sequence
from typing import Any

from specjax.api.traces import EmittedTrace, RoundTrace
from specjax.text import Tokenizer


def to_json(
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
