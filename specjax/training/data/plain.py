"""Texts without labels: the law of a token is the one that follows it."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Int

from specjax.training.data.conversations import Conversation
from specjax.training.data.store import Entry, Span, Store, digest_of


class PlainTexts(Store):
  """A store in memory, for losses that read tokens alone.

  K is 1, the token that follows, with all of the mass: acceptance against such
  laws is the probability that a model gives the text's own tokens.
  """

  def __init__(self, conversations: Sequence[Conversation], vocab_size: int):
    """Args:
      conversations: whose answers are learnt.
      vocab_size: V.

    Raises:
      ValueError: a token outside the vocabulary.
    """
    self.path = Path("texts")
    self.settings = {
      "model": {"name": "texts", "vocab_size": vocab_size},
      "top_k": 1,
      "taps": [],
    }
    self._texts = tuple(conversations)
    for text in self._texts:
      if not 0 <= min(text.token_ids) <= max(text.token_ids) < vocab_size:
        raise ValueError(
          f"text {text.id} has a token outside the vocabulary of {vocab_size}"
        )
    self.entries = tuple(
      Entry(
        digest=digest_of(text),
        id=text.id,
        source=text.source,
        temperature=text.temperature,
        prompt_id=text.prompt_id,
        answered=int(text.mask.sum()),
        shard=place,
        start=0,
        end=len(text.token_ids),
      )
      for place, text in enumerate(self._texts)
    )

  def read(
    self,
    index: int,
    start: int = 0,
    end: int | None = None,
    features: Sequence[str] | None = None,
  ) -> Span:
    """Tokens [start, end) of a text; see `Store.read`."""
    tokens, mask = self.tokens(index)
    following = np.append(tokens[1:], 0).astype(np.int32)
    at = slice(start, end)
    size = len(tokens[at])
    return Span(
      tokens=tokens[at],
      mask=mask[at],
      top_ids=following[at][:, None],
      top_log_probs=np.zeros((size, 1), np.float32),
      log_tail=np.full(size, -np.inf, np.float32),
      features={},
    )

  def tokens(
    self, index: int
  ) -> tuple[Int[np.ndarray, "L"], Bool[np.ndarray, "L"]]:
    """(tokens, mask) of a whole text."""
    text = self._texts[self.entries[index].shard]
    return np.asarray(text.token_ids, np.int32), text.mask[
      : len(text.token_ids)
    ]
