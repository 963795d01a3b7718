"""Which of two modes is faster, and how many prompts it takes to say so."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from specjax.evaluation.figures import paired
from specjax.evaluation.figures.pooling import is_repetitive
from specjax.evaluation.figures.wording import law_name, mode_name, sentence
from specjax.evaluation.records import Answer, Mode


def compare(
  known: Sequence[Mode], of_mode: Mapping[str, Sequence[Answer]]
) -> list[dict[str, Any]]:
  """Every mode against its baseline, and a law's fastest against the others.

  Returns:
    entries as `summary.summarize` describes them; a pair without a common
    question has none.
  """
  found: dict[frozenset[str], dict[str, Any]] = {}
  fastest: dict[Any, tuple[float, Mode]] = {}
  for mode in known:
    base = paired.baseline(mode, known)
    entry = None
    if base is not None and base.name != mode.name:
      entry = _compare(mode, base, of_mode)
    if entry is not None:
      found[frozenset((entry["a"], entry["b"]))] = entry
    speed = entry["ratio"]["estimate"] if entry else 1.0
    if base is not None and speed > fastest.get(mode.law, (0.0, mode))[0]:
      fastest[mode.law] = speed, mode
  for mode in known:
    if mode.law not in fastest:
      continue
    best = fastest[mode.law][1]
    both = frozenset((best.name, mode.name))
    if len(both) == 2 and both not in found:
      entry = _compare(best, mode, of_mode)
      if entry is not None:
        found[both] = entry
  return list(found.values())


def _compare(
  a: Mode, b: Mode, of_mode: Mapping[str, Sequence[Answer]]
) -> dict[str, Any] | None:
  pairs = paired.join(of_mode[a.name], of_mode[b.name])
  kept = [
    pair
    for pair in pairs
    if not any(answer.begun or is_repetitive(answer) for answer in pair)
  ]
  headline = paired.speedup(kept)
  ratio = headline or paired.speedup(pairs)
  if ratio is None:
    return None
  return {
    "a": a.name,
    "b": b.name,
    "law": law_name(a),
    "scope": "headline" if headline else "all",
    "ratio": dataclasses.asdict(ratio),
    "n": ratio.n,
    "n_needed": ratio.n_needed,
    "sentence": sentence(mode_name(a), mode_name(b), ratio),
  }
