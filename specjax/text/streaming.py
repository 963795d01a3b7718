"""Text from bursts of tokens, never ending in half a character."""

import codecs
import dataclasses
from collections.abc import Sequence

from specjax.text.tokenizer import Tokenizer


@dataclasses.dataclass(frozen=True)
class Burst:
  """Text that became whole.

  Attributes:
    text: the new characters.
    spans: (start, end) in `text` a token fed, so that a caller can colour it; a
      character of several tokens belongs to the one that completes it.
  """

  text: str
  spans: tuple[tuple[int, int], ...]


class StreamDecoder:
  """Decodes one row's tokens as they come.

  The texts of all bursts joined, `finish` included, are
  `tokenizer.decode(all ids)`.
  """

  def __init__(self, tokenizer: Tokenizer, skip_special: bool = True):
    self._tokenizer = tokenizer
    self._skip_special = skip_special
    self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
    self._first = tokenizer.strips_first_space

  def feed(self, ids: Sequence[int]) -> Burst:
    """Adds tokens and returns what is now whole."""
    texts, spans, length = [], [], 0
    for index in ids:
      piece = self._tokenizer.piece(index, self._skip_special)
      if self._first and piece:
        piece, self._first = piece.removeprefix(b" "), False
      text = self._decoder.decode(piece)
      texts.append(text)
      spans.append((length, length + len(text)))
      length += len(text)
    return Burst("".join(texts), tuple(spans))

  def finish(self) -> str:
    """What is left: U+FFFD for a character that never became whole."""
    return self._decoder.decode(b"", final=True)
