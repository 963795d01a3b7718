"""Text of a row as it comes, never past a stop string."""

import itertools
from collections.abc import Sequence

from specjax.text import StreamDecoder, Tokenizer, cut_at_stop, safe_length

Pieces = tuple[tuple[str, bool], ...]


class AnswerText:
  """Joins what it returns to `answer`'s text of the same tokens."""

  def __init__(self, tokenizer: Tokenizer, stop: Sequence[str]):
    self._decoder = StreamDecoder(tokenizer)
    self._stop = tuple(stop)
    self._held: list[tuple[str, bool]] = []  # (character, accepted)

  def feed(
    self,
    tokens: Sequence[int],
    accepted: Sequence[bool],
    finish_reason: str | None,
  ) -> Pieces:
    """Adds tokens and returns the text that is now certain."""
    burst = self._decoder.feed(tokens)
    for (start, end), flag in zip(burst.spans, accepted, strict=True):
      self._held.extend((char, flag) for char in burst.text[start:end])
    if finish_reason is None:
      held = self._text().encode("utf-8")
      size = len(held[: safe_length(held, self._stop)].decode("utf-8"))
    else:
      self._held.extend((char, False) for char in self._decoder.finish())
      text = _cut(self._text(), self._stop, finish_reason)
      size = len(text)
    ready, self._held = self._held[:size], self._held[size:]
    return tuple(
      ("".join(char for char, _ in group), flag)
      for flag, group in itertools.groupby(ready, lambda pair: pair[1])
    )

  def _text(self) -> str:
    return "".join(char for char, _ in self._held)


def answer(
  tokenizer: Tokenizer,
  tokens: Sequence[int],
  stop: Sequence[str],
  finish_reason: str | None,
) -> str:
  """The text of all tokens of a row."""
  return _cut(tokenizer.decode(tokens), stop, finish_reason)


def _cut(text: str, stop: Sequence[str], finish_reason: str | None) -> str:
  if finish_reason != "stop":
    return text
  cut = cut_at_stop(text.encode("utf-8"), stop)
  return text if cut is None else cut.decode("utf-8", "replace")
