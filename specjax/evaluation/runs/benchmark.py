"""The interleaved run: every mode answers every question, in turns."""

import dataclasses
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Key

from specjax.evaluation import repeats
from specjax.evaluation.questions import Question
from specjax.evaluation.records import Answer, Mode
from specjax.evaluation.runs.conversations import (
  is_begun,
  most_tokens,
  prompt_ids,
)
from specjax.evaluation.runs.decoders import Decoder
from specjax.evaluation.runs.run_folder import RunFolder
from specjax.text import Tokenizer


@dataclasses.dataclass(frozen=True)
class Plan:
  """What is asked, and how often.

  Attributes:
    questions: from `conversations.choose`, so that each has an id.
    max_new_tokens: at most so many an answer.
    repeats: answers of each mode to each turn.
    seed: of the draws; modes share those of a question and a repeat.
    chat: whether prompts go through the chat template.
    environment: what every record carries.
  """

  questions: tuple[Question, ...]
  max_new_tokens: int = 128
  repeats: int = 1
  seed: int = 0
  chat: bool = True
  environment: dict[str, Any] = dataclasses.field(default_factory=dict)

  def capacity(self, tokenizer: Tokenizer, context: int) -> int:
    """Room for the longest conversation.

    Raises:
      ValueError: one that the context cannot hold, by its id.
    """
    sizes = [
      most_tokens(tokenizer, question, self.chat, self.max_new_tokens)
      for question in self.questions
    ]
    longest = int(np.argmax(sizes))
    if sizes[longest] > context:
      name = self.questions[longest].labels["question_id"]
      raise ValueError(
        f"question {name} and its answers may take {sizes[longest]} tokens and"
        f" the context holds {context}: lower max_new_tokens or leave it out"
      )
    return sizes[longest]

  def shortest(self, tokenizer: Tokenizer) -> int:
    """Tokens of the shortest prompt of a first turn."""
    return min(
      len(prompt_ids(tokenizer, question, [], self.chat))
      for question in self.questions
    )


@dataclasses.dataclass(frozen=True)
class Task:
  """One turn of one question in one repeat, which every mode answers."""

  place: int
  question: Question
  turn: int
  repeat: int

  @property
  def id(self) -> str:
    return str(self.question.labels["question_id"])

  def key(self, seed: int) -> Key[Array, ""]:
    """Of its draws; the same for every mode, whatever else is asked."""
    key = jax.random.fold_in(jax.random.key(seed), self.repeat)
    key = jax.random.fold_in(key, zlib.crc32(self.id.encode()))
    return jax.random.fold_in(key, self.turn)


def tasks(plan: Plan) -> list[Task]:
  """In the order in which they are run."""
  return [
    Task(place, question, turn, repeat)
    for place, question in enumerate(plan.questions)
    for repeat in range(plan.repeats)
    for turn in range(len(question.turns))
  ]


def in_turn(decoders: Sequence[Decoder], number: int) -> list[Decoder]:
  """The decoders, another one first in each task."""
  first = number % len(decoders)
  return [*decoders[first:], *decoders[:first]]


class Run:
  """Answers that are missing in a folder, as they are measured.

  Iterating measures one answer at a time and yields it once it is kept. What
  stops it, stops it between two answers.
  """

  def __init__(
    self,
    plan: Plan,
    decoders: Sequence[Decoder],
    folder: RunFolder,
    tokenizer: Tokenizer,
    between: Callable[[], None] | None = None,
  ):
    """
    Args:
      plan: what is asked.
      decoders: what answers.
      folder: where answers are kept; those that it holds are not measured
        again.
      tokenizer: the target's.
      between: called before each task that is not done yet.
    """
    self.plan, self.decoders = plan, tuple(decoders)
    self._folder, self.tokenizer = folder, tokenizer
    self._between = between
    self.tasks = tasks(plan)
    wanted = {
      (decoder.mode.name, task.id, task.turn, task.repeat)
      for task in self.tasks
      for decoder in decoders
    }
    there = {answer.key: answer for answer in folder.answers()}
    self._texts = {key: answer.text for key, answer in there.items()}
    self.total = len(wanted)
    self._left = wanted - there.keys()

  @property
  def done(self) -> int:
    """Answers that are kept."""
    return self.total - len(self._left)

  def __iter__(self) -> Iterator[Answer]:
    for number, task in enumerate(self.tasks):
      place = (task.id, task.turn, task.repeat)
      missing = [
        decoder
        for decoder in in_turn(self.decoders, number)
        if (decoder.mode.name, *place) in self._left
      ]
      if missing and self._between is not None:
        self._between()
      for decoder in missing:
        answer = self._measure(task, decoder)
        self._folder.append(answer)
        self._texts[answer.key] = answer.text
        self._left.discard(answer.key)
        yield answer

  def prompt(self, task: Task, mode: Mode) -> list[int]:
    """Ids of a task's prompt, after the mode's own answers before it."""
    said = [
      self._texts[mode.name, task.id, turn, task.repeat]
      for turn in range(task.turn)
    ]
    return prompt_ids(self.tokenizer, task.question, said, self.plan.chat)

  def prompt_of(self, answer: Answer) -> list[int]:
    """Ids of the prompt that an answer of this run was given."""
    place = answer.question_id, answer.turn, answer.repeat
    (task,) = (t for t in self.tasks if (t.id, t.turn, t.repeat) == place)
    return self.prompt(task, answer.mode)

  def _measure(self, task: Task, decoder: Decoder) -> Answer:
    plan, labels = self.plan, task.question.labels
    ids = self.prompt(task, decoder.mode)
    got = decoder.decode(ids, plan.max_new_tokens, task.key(plan.seed))
    return Answer(
      mode=decoder.mode,
      question_id=task.id,
      category=labels["category"],
      turn=task.turn,
      repeat=task.repeat,
      prompt=task.question.turns[task.turn],
      prompt_tokens=len(ids),
      begun=is_begun(task.question, task.turn),
      predicted_s=None,
      repeated_8grams=repeats.repeated_share(got.token_ids),
      seed=plan.seed,
      environment=plan.environment,
      **{f.name: getattr(got, f.name) for f in dataclasses.fields(got)},
    )
