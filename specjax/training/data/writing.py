"""A file of conversations as it is written: appended, resumed, claimed."""

import collections
import contextlib
import dataclasses
import json
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, TextIO

import filelock

from specjax.evaluation import records
from specjax.training.data import conversations
from specjax.training.data.conversations import Conversation

_SAY_EVERY_S = 5.0


@dataclasses.dataclass
class Progress:
  """How far a stage is, and how fast.

  Attributes:
    total: what is to be done, in `unit`s.
    done: of it, what an earlier run did included.
    say: gets a line every few seconds, and one at the end.
    tokens: of this run.
    waited_s: seconds that count for no rate: compilation.
    dropped: by reason.
  """

  total: int
  done: int
  say: Callable[[str], None]
  unit: str = "conversations"
  tokens: int = 0
  waited_s: float = 0.0
  dropped: collections.Counter = dataclasses.field(
    default_factory=collections.Counter
  )

  def __post_init__(self):
    self._begun = self._said = time.monotonic()
    self._ended: float | None = None
    self._before = self.done

  @property
  def seconds(self) -> float:
    """Of this run, without what `waited_s` counts."""
    end = time.monotonic() if self._ended is None else self._ended
    return max(end - self._begun - self.waited_s, 1e-9)

  @property
  def rate(self) -> float:
    """Tokens a second of this run."""
    return self.tokens / self.seconds

  def tell(self, last: bool = False) -> None:
    """Says where it stands, unless it did a moment ago; the last stops time."""
    if last:
      self._ended = time.monotonic()
    if last or time.monotonic() - self._said > _SAY_EVERY_S:
      self._said = time.monotonic()
      self.say(self.line())

  def line(self) -> str:
    """One line: done, tokens, rate, time left, what was dropped."""
    text = f"[{self.done}/{self.total}] {self.unit}"
    if self.tokens:
      text += f", {self.tokens:,} tokens at {self.rate:.1f} tokens/s"
    if made := self.done - self._before:
      left = self.seconds / made * (self.total - self.done)
      text += f", about {_duration(left)} left" if left else ""
    if self.dropped:
      counts = ", ".join(
        f"{n} {why}" for why, n in sorted(self.dropped.items())
      )
      text += f"; dropped: {counts}"
    return text


def _duration(seconds: float) -> str:
  if seconds < 90:
    return f"{seconds:.0f} s"
  return (
    f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
  )


@dataclasses.dataclass
class Writer:
  """The open file; made by `claim` alone.

  Attributes:
    next_number: of the first conversation that is not there.
    prompt_ids: of all that are.
  """

  file: TextIO
  next_number: int
  prompt_ids: set[str]
  dropped: collections.Counter

  def keep(self, conversation: Conversation) -> None:
    """Appends a conversation; it is in the file when this returns."""
    self._write(conversation.to_json())
    self.prompt_ids.add(conversation.prompt_id)

  def drop(self, number: int, reason: str) -> None:
    """Notes that a number gave nothing."""
    self._write(conversations.dropped(number, reason))
    self.dropped[reason] += 1

  def _write(self, entry: dict[str, Any]) -> None:
    self.file.write(json.dumps(entry) + "\n")
    self.file.flush()
    self.next_number += 1


@contextlib.contextmanager
def claim(path: Path, settings: dict[str, Any]) -> Generator[Writer]:
  """Makes the file, or goes on with the one that the same settings left.

  Args:
    path: of the file; a last line that a kill cut short is removed.
    settings: all that decides what its lines say.

  Raises:
    ValueError: it cannot be written, holds what other settings made (what
      differs is named), or another process writes it.
  """
  settings = json.loads(json.dumps(settings))
  try:
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(path.with_name(path.name + ".lock"))
    lock.acquire(timeout=0)
  except filelock.Timeout as error:
    raise ValueError(f"another run is writing to {path}") from error
  except OSError as error:
    raise ValueError(f"cannot write to {path}: {error.strerror}") from error
  with lock:
    records.mend(path)
    there = list(conversations.read_lines(path)) if path.exists() else []
    if there:
      check_settings(path, _stated(there), settings)
    with open(path, "a", encoding="utf-8") as file:
      if not there:
        file.write(json.dumps(conversations.header(settings)) + "\n")
        file.flush()
      entries = [entry for _, entry in there[1:]]
      kept = [entry for entry in entries if isinstance(entry, Conversation)]
      yield Writer(
        file,
        len(entries),
        {entry.prompt_id for entry in kept},
        collections.Counter(
          entry["dropped"] for entry in entries if isinstance(entry, dict)
        ),
      )


def check_settings(path: Path, there: Any, now: dict[str, Any]) -> None:
  """Refuses to mix what different settings made.

  Raises:
    ValueError: with what differs.
  """
  if not isinstance(there, dict):
    raise ValueError(f"{path} was not made here: it states no settings")
  differs = [
    f"{name} is {there.get(name)!r} there and {now.get(name)!r} now"
    for name in dict.fromkeys([*there, *now])
    if there.get(name) != now.get(name)
  ]
  if differs:
    raise ValueError(
      f"{path} was made with other settings: {'; '.join(differs[:3])}"
    )


def _stated(there: list[tuple[int, Any]]) -> Any:
  first = there[0][1]
  return first.get("settings") if isinstance(first, dict) else None
