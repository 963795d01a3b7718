"""A conversation: token ids, and which of them are answers to learn from."""

import dataclasses
import hashlib
import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Bool

from specjax.evaluation import text_files

Source = Literal["synthetic", "prompt", "corpus", "trace", "draft"]
SOURCES: tuple[str, ...] = get_args(Source)
SIDES = ("train", "held_out", "all")
_HEADER = "settings"
_DROPPED = "dropped"


@dataclasses.dataclass(frozen=True)
class Conversation:
  """One text of a target's, or of a draft's.

  Attributes:
    id: unique in its file.
    source: "synthetic" and "prompt" where the target answered a query of its
      own or a given one, "draft" where a draft answered, "corpus" and "trace"
      for texts made elsewhere.
    token_ids: the whole text.
    answers: [start, end) of the tokens to learn from, in order and apart.
    temperature: at which the answers were drawn; None where nobody knows.
    prompt_id: the same for texts that must lie on one side of a split.

  Raises:
    ValueError: an unknown source, spans outside the text or out of order.
  """

  id: str
  source: str
  token_ids: tuple[int, ...]
  answers: tuple[tuple[int, int], ...]
  temperature: float | None
  prompt_id: str

  def __post_init__(self):
    if self.source not in SOURCES:
      raise ValueError(f"source must be one of {SOURCES}, got {self.source!r}")
    places = [0, *itertools.chain(*self.answers), len(self.token_ids)]
    pairs = all(start < end for start, end in self.answers)
    if not pairs or any(a > b for a, b in itertools.pairwise(places)):
      raise ValueError(
        f"answers {self.answers} of {self.id} must be spans [start, end) in"
        f" order within {len(self.token_ids)} tokens"
      )

  @property
  def mask(self) -> Bool[np.ndarray, "L"]:
    """Where the law after a token is to be learnt: its next is an answer's.

    tokens   p0 p1 p2 a0 a1 a2      answers = [3, 6)
    mask      .  .  x  x  x  .      the last token's next is not there
    """
    answered = np.zeros(len(self.token_ids) + 1, bool)
    for start, end in self.answers:
      answered[start:end] = True
    return answered[1:]

  @property
  def new_tokens(self) -> int:
    """Tokens of the answers."""
    return sum(end - start for start, end in self.answers)

  def to_json(self) -> dict[str, Any]:
    return dataclasses.asdict(self)

  @classmethod
  def from_json(cls, entry: dict[str, Any]) -> "Conversation":
    """Of a line of a file.

    Raises:
      KeyError, TypeError, ValueError: it is no such line.
    """
    return cls(
      id=str(entry["id"]),
      source=entry["source"],
      token_ids=tuple(int(i) for i in entry["token_ids"]),
      answers=tuple((int(a), int(b)) for a, b in entry["answers"]),
      temperature=entry.get("temperature"),
      prompt_id=str(entry.get("prompt_id", entry["id"])),
    )


def prompt_id(text: str) -> str:
  """A short name of a query, the same however it is spaced and cased."""
  plain = " ".join(text.split()).casefold()
  return hashlib.sha256(plain.encode("utf-8")).hexdigest()[:16]


def is_held_out(prompt_id: str, share: float) -> bool:
  """Whether texts of this prompt are kept from training.

  Decided by the prompt alone: what is appended later moves nothing, and what a
  share holds out a larger one holds out too.
  """
  digest = hashlib.sha256(f"held out {prompt_id}".encode()).digest()
  return int.from_bytes(digest[:8]) < share * 2**64


def on_side(prompt_id: str, side: str, held_out: float) -> bool:
  """Whether a text of this prompt belongs to "train", "held_out" or "all".

  Raises:
    ValueError: another side, or a share outside [0, 1].
  """
  if side not in SIDES:
    raise ValueError(f"a side is one of {SIDES}, got {side!r}")
  if not 0 <= held_out <= 1:
    raise ValueError(f"a held-out share is 0 to 1, got {held_out}")
  return side == "all" or is_held_out(prompt_id, held_out) == (
    side == "held_out"
  )


def first_tokens(
  conversations: Sequence[Conversation], held_out: float, max_tokens: int | None
) -> list[Conversation]:
  """Texts of a smaller training: what is held out stays as it is.

  Args:
    held_out: share of prompts that are kept from training.
    max_tokens: the training texts that stay are the first whose answers sum to
      at most so many tokens; None is all.

  Returns:
    texts in their order, each once.

  Raises:
    ValueError: not even the first training text fits.
  """
  once: dict[Any, Conversation] = {}
  for text in conversations:
    once.setdefault((text.token_ids, text.answers), text)
  texts = list(once.values())
  if max_tokens is None:
    return texts
  kept, room, full = [], max_tokens, False
  for text in texts:
    if is_held_out(text.prompt_id, held_out):
      kept.append(text)
      continue
    full = full or text.new_tokens > room
    if not full:
      kept.append(text)
      room -= text.new_tokens
  if room == max_tokens:
    raise ValueError(
      f"max_tokens of {max_tokens} is less than the first training text has"
    )
  return kept


def answer_tokens(
  conversations: Sequence[Conversation], held_out: float
) -> int:
  """Tokens of the answers on the training side, as they stand."""
  return sum(
    c.new_tokens
    for c in conversations
    if not is_held_out(c.prompt_id, held_out)
  )


def read_conversations(path: Path) -> list[Conversation]:
  """Conversations of a file, in its order.

  The first line may state the settings and others what was dropped; a last
  line that a kill cut short is left out.

  Raises:
    ValueError: no such file, or a line that is no conversation, by number.
  """
  return [c for _, c in read_lines(path) if isinstance(c, Conversation)]


def read_lines(
  path: Path,
) -> Iterator[tuple[int, Conversation | dict[str, Any]]]:
  """(number, conversation, or what else the line says) of whole lines."""
  lines = text_files.read(path).split("\n")
  for number, line in enumerate(lines[:-1], 1):  # a whole line ends in "\n"
    if not line.strip():
      continue
    try:
      entry = json.loads(line)
      if _HEADER in entry or _DROPPED in entry:
        yield number, entry
      else:
        yield number, Conversation.from_json(entry)
    except (KeyError, TypeError, ValueError) as error:
      raise ValueError(
        f"{path}, line {number}: no conversation"
        f" ({type(error).__name__}: {error})"
      ) from error


def header(settings: dict[str, Any]) -> dict[str, Any]:
  """The first line of a file that is made here."""
  return {_HEADER: settings}


def dropped(number: int, reason: str) -> dict[str, Any]:
  """The line of a query that was not kept."""
  return {"id": str(number), _DROPPED: reason}
