"""Prompts of questions, turn after turn, as token ids."""

from collections.abc import Sequence

from specjax.evaluation.questions import Question
from specjax.text import Tokenizer

# What specjax.api takes: a text, or its ids.
Prompt = str | list[int]


def prompt_ids(
  tokenizer: Tokenizer,
  question: Question,
  answers: Sequence[str],
  chat: bool,
) -> list[int]:
  """Ids of the conversation up to the turn that follows `answers`.

  Args:
    tokenizer: the target's.
    question: its turns; where its last answer is begun, the beginning follows
      the prompt.
    answers: what was said to the turns before.
    chat: whether to use the chat template; else the texts a line each.
  """
  turn = len(answers)
  messages = []
  for text, answer in zip(question.turns, answers, strict=False):
    messages.append({"role": "user", "content": text})
    messages.append({"role": "assistant", "content": answer})
  messages.append({"role": "user", "content": question.turns[turn]})
  if chat:
    ids = tokenizer.encode_chat(messages)
  else:
    ids = tokenizer.encode("\n".join(m["content"] for m in messages))
  if is_begun(question, turn):
    ids = ids + tokenizer.encode(question.begun, add_special=False)
  return ids


def prompt(
  tokenizer: Tokenizer | None,
  question: Question,
  answers: Sequence[str],
  chat: bool,
) -> Prompt:
  """The same for `specjax.api`: a first turn that is not begun as it stands.

  Raises:
    ValueError: there is no tokenizer, and the text is not all.
  """
  turn = len(answers)
  if not turn and not is_begun(question, turn):
    return question.turns[turn]
  if tokenizer is None:
    raise ValueError("without a tokenizer no answer can be begun or gone on")
  return prompt_ids(tokenizer, question, answers, chat)


def wants_chat(tokenizer: Tokenizer | None, chat: bool | None) -> bool:
  """`chat`; where it is None, whether there is a template."""
  if chat is None:
    return tokenizer is not None and tokenizer.chat_template is not None
  return chat


def is_begun(question: Question, turn: int) -> bool:
  """Whether the answer to this turn is given its beginning."""
  return bool(question.begun) and turn == len(question.turns) - 1


def most_tokens(
  tokenizer: Tokenizer, question: Question, chat: bool, max_new_tokens: int
) -> int:
  """Tokens of the whole conversation where every answer is full length.

  The text of an answer, read again in a later turn, may take more tokens than
  it was said in: a quarter more is allowed for.
  """
  before = len(question.turns) - 1
  asked = prompt_ids(tokenizer, question, [""] * before, chat)
  spare = before * (max_new_tokens // 4)
  return len(asked) + (before + 1) * max_new_tokens + spare
