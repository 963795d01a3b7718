"""A plain text as conversations: windows whose every token is an answer."""

from pathlib import Path

from specjax.evaluation import text_files
from specjax.text import Tokenizer
from specjax.training.data.conversations import Conversation, prompt_id


def corpus_windows(
  tokenizer: Tokenizer, path: Path, length: int
) -> list[Conversation]:
  """Windows of a text file, one after another.

  Where the model puts a token before every text, each window begins with it;
  it is no part of the answer.

  Args:
    tokenizer: the target's.
    path: of a UTF-8 text.
    length: L, tokens of a window; the last may be shorter.

  Raises:
    ValueError: a file that cannot be read, or too short to learn from.
  """
  text = text_files.read(path)
  begin = tokenizer.encode("")
  room = length - len(begin)
  if room < 2:
    raise ValueError(f"a window of {length} tokens has nothing to learn")
  ids = tokenizer.encode(text, add_special=False)
  windows = [ids[i : i + room] for i in range(0, len(ids), room)]
  windows = [w for w in windows if len(w) > 1]
  if not windows:
    raise ValueError(f"{path} has no text to learn from")
  return [
    Conversation(
      id=f"{path.name}-{place}",
      source="corpus",
      token_ids=(*begin, *window),
      answers=((len(begin), len(begin) + len(window)),),
      temperature=None,
      prompt_id=prompt_id(tokenizer.decode(window)),
    )
    for place, window in enumerate(windows)
  ]
