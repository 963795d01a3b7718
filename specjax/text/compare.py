"""Whether a draft and a target speak of the same tokens."""

from collections.abc import Sequence

from specjax.text.base import TextError
from specjax.text.tokenizer import Tokenizer

Vocabulary = Tokenizer | Sequence[bytes]


def compare_vocabularies(target: Vocabulary, draft: Vocabulary) -> None:
  """Raises unless every token of the draft is the same token of the target.

  Args:
    target, draft: tokenizers, or bytes by id. Padding at the end (empty
      entries) does not count, and the target may know more tokens there.

  Raises:
    TextError: names the first id that differs, with both strings.
  """
  ours, theirs = _pieces(target), _pieces(draft)
  ours += [b""] * (len(theirs) - len(ours))
  for index, (left, right) in enumerate(zip(ours, theirs, strict=False)):
    if left != right:
      raise TextError(
        f"the draft's vocabulary differs from the target's at id {index}:"
        f" {_shown(left)} in the target, {_shown(right)} in the draft"
      )


def _pieces(vocabulary: Vocabulary) -> list[bytes]:
  if isinstance(vocabulary, Tokenizer):
    vocabulary = vocabulary.token_bytes()
  pieces = list(vocabulary)
  while pieces and not pieces[-1]:
    pieces.pop()
  return pieces


def _shown(piece: bytes) -> str:
  return repr(piece.decode("utf-8", "backslashreplace")) if piece else "nothing"
