"""The fields of a benchmark's config, and what flags put in their place."""

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from specjax.evaluation.questions import Question

_LISTS = (
  "categories",
  "drafters",
  "rules",
  "num_speculative_tokens",
  "temperatures",
  "peers",
)
_NAMES = ("drafters", "rules", "peers")
_POSITIVE = ("per_category", "max_new_tokens", "repeats")


@dataclasses.dataclass(frozen=True)
class Settings:
  """A config, checked.

  Attributes:
    prompt_file: JSONL of questions; see `specjax.evaluation.questions`.
    categories: those asked; empty is all.
    first_question, last_question: places in the file, from 0; the last one is
      left out, and None is the end.
    per_category: at most so many of each; None is all.
    model, dtype: the target.
    draft_model, draft_layers: of drafters that run a model.
    drafters, rules, num_speculative_tokens, temperatures, top_k, top_p, min_p,
      lenience: see `specjax.evaluation.runs.grid.Grid`.
    peers: other systems that take turns; see `specjax.evaluation.peers`.
    max_new_tokens: of an answer.
    repeats: answers of each mode to each turn.
    seed: of the draws.
    chat: whether to use the chat template; None is where the model has one.
    costs: whether to time target passes and drafting by calls of their own, one
      of each between two questions, for the predicted speed.
    cost_rounds: so many whole rounds are timed beside them, for the share of
      bookkeeping; 0 is none.
    route: a free tag of the records.
  """

  prompt_file: str
  categories: tuple[str, ...] = ()
  first_question: int = 0
  last_question: int | None = None
  per_category: int | None = None
  model: str = "smollm2-135m"
  dtype: str | None = None
  draft_model: str | None = None
  draft_layers: int | None = None
  drafters: tuple[str, ...] = ("ngram",)
  rules: tuple[str, ...] = ()
  num_speculative_tokens: tuple[int, ...] = ()
  temperatures: tuple[float, ...] = (0.0,)
  top_k: int = 0
  top_p: float = 1.0
  min_p: float = 0.0
  lenience: float | None = None
  peers: tuple[str, ...] = ()
  max_new_tokens: int = 128
  repeats: int = 1
  seed: int = 0
  chat: bool | None = None
  costs: bool = True
  cost_rounds: int = 0
  route: str = ""

  def __post_init__(self):
    for name in _LISTS:
      if isinstance(getattr(self, name), str):
        raise ValueError(f"{name} of the config must be a list, not a string")
    for name in _POSITIVE:
      value = getattr(self, name)
      if value is not None and value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")
    for name in ("cost_rounds", "first_question", "last_question"):
      value = getattr(self, name)
      if value is not None and value < 0:
        raise ValueError(f"{name} must be 0 or more, got {value}")
    if not 0 <= self.seed < 2**32:  # what a key tells apart
      raise ValueError(f"seed must be 0 to {2**32 - 1}, got {self.seed}")

  @classmethod
  def of(cls, config: Mapping[str, Any], given: Mapping[str, Any]) -> Self:
    """Of a config's fields, with the flags that were given in their place.

    Raises:
      ValueError: an unknown field, one that is missing or out of range.
    """
    values = {**config, **{k: v for k, v in given.items() if v is not None}}
    known = [field.name for field in dataclasses.fields(cls)]
    if unknown := sorted(set(values) - set(known)):
      raise ValueError(
        f"the config has the unknown field {unknown[0]!r}; known are"
        f" {', '.join(known)}"
      )
    if not values.get("prompt_file"):
      raise ValueError("the config has no prompt_file; give --prompt_file=FILE")
    for name in _LISTS:
      if isinstance(values.get(name), list):
        values[name] = tuple(values[name])
    for name in _NAMES:
      if isinstance(values.get(name), tuple):
        # A flag's "a,b" comes as one string.
        parts = [part for text in values[name] for part in text.split(",")]
        values[name] = tuple(part.strip() for part in parts)
    if isinstance(values.get("temperatures"), tuple):
      values["temperatures"] = tuple(map(float, values["temperatures"]))
    return cls(**values)

  def record(self, questions: Sequence[Question]) -> dict[str, Any]:
    """What a run's folder keeps and a rerun must match: no path of prompts."""
    text = repr([(q.turns, q.labels, q.begun) for q in questions])
    return {
      **dataclasses.asdict(self),
      "prompt_file": Path(self.prompt_file).name,
      "prompts_hash": hashlib.sha256(text.encode()).hexdigest()[:12],
    }
