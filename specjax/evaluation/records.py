"""Records of measured answers: a line of JSON each, kept as they come.

Whatever is printed, drawn or compared is computed from these lines alone.
"""

import dataclasses
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from specjax import metrics
from specjax.evaluation import text_files

FILE = "records.jsonl"
PLAIN = "none"  # a mode's drafter where it is plain decoding


@dataclasses.dataclass(frozen=True)
class Mode:
  """One way of decoding that a run compares.

  Attributes:
    name: unique in a run and in a plot's legend: "none", "ngram k=7",
      "transformers lookup".
    system: "specjax", or the peer that decodes: "transformers", "llama.cpp",
      "torch".
    drafter: a registered name or an import path; "none" is plain decoding.
    rule: its name; None where a peer does not say.
    lossless: whether the output law is exactly the target's; None where a peer
      does not say.
    num_speculative_tokens: the largest depth of a draft; 0 for plain.
    options: other settings of the drafter and the rule: draft_model,
      draft_layers, lenience.
    temperature, top_k, top_p, min_p: the law asked for.
  """

  name: str
  drafter: str = PLAIN
  rule: str | None = None
  lossless: bool | None = None
  num_speculative_tokens: int = 0
  temperature: float = 0.0
  top_k: int = 0
  top_p: float = 1.0
  min_p: float = 0.0
  system: str = "specjax"
  options: dict[str, Any] = dataclasses.field(default_factory=dict)

  @property
  def law(self) -> tuple[float, int, float, float]:
    """What a mode is to be compared at: modes of one law are comparable."""
    return self.temperature, self.top_k, self.top_p, self.min_p

  @property
  def is_plain(self) -> bool:
    return self.drafter == PLAIN


@dataclasses.dataclass(frozen=True)
class Answer:
  """One measured answer: one mode, one turn of one question, one repeat.

  Attributes:
    mode: what decoded it.
    question_id, category: of the question file; a place and "" where it has
      none.
    turn, repeat: from 0.
    prompt: the user's text of this turn.
    text, token_ids, finish_reason: what came out.
    prompt_tokens: those of the conversation so far included.
    begun: whether the answer's beginning was given; such answers flatter
      lookup, and are rows of their own.
    passes: target passes.
    rounds: (drafted, accepted, emitted, width) of each round, in order; empty
      where a peer does not say.
    compile_s, prefill_s, decode_s: seconds; compilation is never part of the
      other two.
    predicted_s: of decode_s, from separate calls in the same run; None where
      costs were not measured.
    repeated_8grams: share of the output's 8-grams that it repeats, which
      flatters lookup; see `repeats.repeated_share`.
    seed: of the draws.
    environment: model, dtype, device, versions, commit, config hash, flags and
      the free tag `route`; see `environment.describe`.
  """

  mode: Mode
  question_id: str
  category: str
  turn: int
  repeat: int
  prompt: str
  text: str
  token_ids: tuple[int, ...]
  finish_reason: str | None
  prompt_tokens: int
  begun: bool
  passes: int
  rounds: tuple[tuple[int, int, int, int], ...]
  compile_s: float
  prefill_s: float
  decode_s: float
  predicted_s: float | None
  repeated_8grams: float
  seed: int
  environment: dict[str, Any]
  batch: int = 1

  @property
  def key(self) -> tuple[str, str, int, int]:
    """What a run holds once: (mode, question, turn, repeat)."""
    return self.mode.name, self.question_id, self.turn, self.repeat

  @property
  def new_tokens(self) -> int:
    return len(self.token_ids)

  @property
  def tokens_per_s(self) -> float | None:
    """Of decoding alone: neither compilation nor prefill."""
    return self.new_tokens / self.decode_s if self.decode_s else None

  @property
  def stats(self) -> metrics.Stats:
    """Figures of its rounds."""
    history = np.asarray(self.rounds, np.int32).reshape(-1, 4)
    depth = self.mode.num_speculative_tokens
    return metrics.row_stats(history, len(history), depth)

  def to_json(self) -> dict[str, Any]:
    """Its fields, and for readers the figures that follow from them."""
    stats = self.stats
    return {
      **dataclasses.asdict(self),
      "new_tokens": self.new_tokens,
      "drafted": stats.drafted,
      "accepted": stats.accepted,
      "accept_lengths": list(stats.accept_lengths),
      "mean_acceptance_length": stats.mean_acceptance_length,
      "draft_acceptance_rate": stats.draft_acceptance_rate,
      "acceptance_per_position": list(stats.acceptance_per_position),
      "tokens_per_s": self.tokens_per_s,
    }

  @classmethod
  def from_json(cls, entry: dict[str, Any]) -> "Answer":
    """Of a line of a record file; figures that follow are left out.

    Raises:
      KeyError, TypeError: it is no such record.
    """
    names = {field.name for field in dataclasses.fields(cls)}
    values = {name: entry[name] for name in names & entry.keys()}
    values["mode"] = Mode(**entry["mode"])
    values["token_ids"] = tuple(entry["token_ids"])
    values["rounds"] = tuple(tuple(r) for r in entry["rounds"])
    return cls(**values)


def append(path: Path, entry: dict[str, Any]) -> None:
  """Adds one line, on the disk when this returns."""
  with open(path, "a", encoding="utf-8") as file:
    file.write(json.dumps(entry) + "\n")
    file.flush()
    os.fsync(file.fileno())


def read_lines(path: Path) -> list[dict[str, Any]]:
  """The lines of a file; a last line that a kill cut short is left out.

  Raises:
    ValueError: another line that does not parse or is no UTF-8, by number.
  """
  lines = text_files.read(path).split("\n")
  entries = []
  for number, line in enumerate(lines, 1):
    if not line.strip():
      continue
    try:
      entries.append(json.loads(line))
    except ValueError as error:
      if number == len(lines):
        break
      raise ValueError(f"{path}, line {number}: no JSON ({error})") from error
  return entries


def mend(path: Path) -> None:
  """Cuts off a last line that a kill left incomplete, before appending."""
  if not path.exists():
    return
  data = path.read_bytes()
  whole = data.rfind(b"\n") + 1
  if whole < len(data):
    with open(path, "r+b") as file:
      file.truncate(whole)


def read(path: Path) -> list[Answer]:
  """Answers of a record file, or of the one in a run's folder.

  Raises:
    ValueError: no such file, or a line that is no record, by number.
  """
  path = path / FILE if path.is_dir() else path
  if not path.exists():
    raise ValueError(f"there are no records at {path}")
  answers = []
  for number, entry in enumerate(read_lines(path), 1):
    try:
      answers.append(Answer.from_json(entry))
    except (KeyError, TypeError) as error:
      raise ValueError(f"{path}, line {number}: no record ({error})") from error
  return answers


def modes(answers: Iterable[Answer]) -> list[Mode]:
  """The modes, in the order in which they first come."""
  return list({answer.mode.name: answer.mode for answer in answers}.values())
