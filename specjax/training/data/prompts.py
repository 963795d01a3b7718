"""What is answered: prompts of files, of stored texts, and the open user turn.

The open turn is Magpie's (Xu et al. 2024, arXiv 2406.08464): the chat template
up to where the user's message would begin, so that an aligned model writes it.
"""

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from specjax.evaluation import questions, text_files
from specjax.text import Tokenizer
from specjax.training.data.conversations import Conversation, prompt_id

_MESSAGE = "SpecjaxPlaceForTheMessage"
_ROLES = {"human": "user", "gpt": "assistant"}


@dataclasses.dataclass(frozen=True)
class Prompt:
  """What a model goes on from.

  Attributes:
    token_ids: all of it, rendered.
    prompt_id: of the query, for splits.
  """

  token_ids: tuple[int, ...]
  prompt_id: str


@dataclasses.dataclass(frozen=True)
class OpenTurn:
  """A chat template cut where the user's message begins.

  Attributes:
    token_ids: what stands before the message, a system message included where
      the template writes one by itself.
    stop: strings that end the message where no end-of-text token does.
  """

  token_ids: tuple[int, ...]
  stop: tuple[str, ...]


def open_turn(tokenizer: Tokenizer) -> OpenTurn:
  """Cuts the template of any chat model by rendering a known message.

  Raises:
    ValueError: there is no template, or it changes or repeats the message.
  """
  message = [{"role": "user", "content": _MESSAGE}]
  parts = tokenizer.render_chat(message).split(_MESSAGE)
  if len(parts) != 2:
    raise ValueError(
      "the chat template does not state a user's message once and as it is:"
      " no user turn can be left open"
    )
  before, after = parts
  # A space before the message belongs to its first token.
  ids = tokenizer.encode(before.rstrip(" "), add_special=False)
  if not ids:
    raise ValueError("the chat template has nothing before a user's message")
  end = tokenizer.encode(after.strip(), add_special=False)
  ended = not end or end[0] in tokenizer.eos_ids
  return OpenTurn(tuple(ids), () if ended else (after.strip(),))


def chat_prompt(
  tokenizer: Tokenizer, messages: Sequence[dict[str, str]]
) -> Prompt:
  """A chat that ends with a user's message, or a plain text without a template.

  The prompt id is that of the first user message.
  """
  first = next(m["content"] for m in messages if m["role"] == "user")
  if tokenizer.chat_template is None:
    ids = tokenizer.encode("\n".join(m["content"] for m in messages))
  else:
    ids = tokenizer.encode_chat(messages)
  return Prompt(tuple(ids), prompt_id(first))


def read_prompts(
  path: str, tokenizer: Tokenizer, turns: int = 1
) -> list[Prompt]:
  """Prompts of a JSONL file.

  A line is {"prompt": TEXT}, Spec-Bench's {"turns": [TEXT, ...]}, of which the
  first turn is taken, or a whole dialogue: ShareGPT's {"conversations":
  [{"from": "human", "value": TEXT}, ...]} or {"messages": [{"role": "user",
  "content": TEXT}, ...]}.

  Args:
    path: of the file.
    tokenizer: renders chats with its template.
    turns: of a dialogue, answer the first so many user messages, each a prompt
      with the file's own messages before it.

  Raises:
    ValueError: a line of no such form, by number, or an empty message.
  """
  if turns < 1:
    raise ValueError(f"turns must be at least 1, got {turns}")
  if not _has_dialogues(path):
    return [
      chat_prompt(tokenizer, [{"role": "user", "content": asked.turns[0]}])
      for asked in questions.read([], path)
    ]
  prompts = []
  lines = text_files.read(path).split("\n")
  for number, line in enumerate(lines, 1):
    if line.strip():
      messages = _messages(line, f"{path}, line {number}")
      users = [i for i, m in enumerate(messages) if m["role"] == "user"]
      for place in users[:turns]:
        prompts.append(chat_prompt(tokenizer, messages[: place + 1]))
  return prompts


def stored_prompts(conversations: Sequence[Conversation]) -> list[Prompt]:
  """Prompts of texts that were made earlier, up to their first answers.

  For a draft that goes on from them: on-policy contexts (Zhou et al. 2023,
  DistillSpec, arXiv 2310.08461, section 4).
  """
  return [
    Prompt(c.token_ids[: c.answers[0][0]], c.prompt_id)
    for c in conversations
    if c.answers and c.answers[0][0]
  ]


def _has_dialogues(path: str) -> bool:
  """By the first line; what cannot be read is left to `questions`."""
  try:
    with open(path, encoding="utf-8-sig") as file:
      entry = json.loads(next((line for line in file if line.strip()), ""))
  except (OSError, ValueError):
    return False
  return isinstance(entry, dict) and bool(
    {"conversations", "messages"} & set(entry)
  )


def _messages(line: str, where: str) -> list[dict[str, str]]:
  try:
    entry = json.loads(line)
    found = entry.get("conversations", entry.get("messages"))
    messages = [_message(item) for item in found]
  except (ValueError, TypeError, KeyError, AttributeError) as error:
    raise ValueError(
      f'{where}: needs {{"conversations": [{{"from": ..., "value": ...}}]}} or'
      ' {"messages": [{"role": ..., "content": ...}]}'
    ) from error
  if not any(m["role"] == "user" for m in messages):
    raise ValueError(f"{where}: no user speaks")
  if not all(m["content"].strip() for m in messages):
    raise ValueError(f"{where}: a message is empty")
  return messages


def _message(item: Any) -> dict[str, str]:
  role = item.get("role", item.get("from"))
  content = item["content"] if "content" in item else item["value"]
  if not isinstance(role, str) or not isinstance(content, str):
    raise TypeError("role and content must be texts")
  return {"role": _ROLES.get(role, role), "content": content}
