"""Answers to questions, turn after turn, and their records."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import jax

from specjax import api, metrics
from specjax.checkpoints.loaded import LoadedModel
from specjax.evaluation.questions import Question
from specjax.evaluation.runs import conversations

# Rounds a dispatch: a tenth of a second of text, and little cost of its own.
_ROUNDS = 4


@dataclasses.dataclass(frozen=True)
class Wave:
  """One turn of those questions that have it.

  Attributes:
    turn: which.
    asked: places of the questions.
    stream: to be run before the next wave.
    plain: a stream of plain decoding on the same prompts and keys.
  """

  turn: int
  asked: list[int]
  stream: api.Stream
  plain: api.Stream


class Conversations:
  """Questions answered together, one wave a turn.

  In the first wave a prompt's draws depend on the seed and on its place.
  """

  def __init__(
    self,
    target: LoadedModel,
    questions: Sequence[Question],
    *,
    seed: int,
    chat: bool | None,
    methods: dict[str, Any],
    **options: Any,
  ):
    self._target, self._questions = target, questions
    self._seed, self._options, self._methods = seed, options, methods
    self._chat = conversations.wants_chat(target.tokenizer, chat)
    self._said: list[list[str]] = [[] for _ in questions]

  def waves(self) -> Iterator[Wave]:
    """Waves in turn; the caller runs each one's stream."""
    for turn in range(max(len(q.turns) for q in self._questions)):
      asked = [i for i, q in enumerate(self._questions) if len(q.turns) > turn]
      prompts = [self._prompt(index) for index in asked]
      wave = Wave(
        turn=turn,
        asked=asked,
        stream=self._stream(prompts, turn, **self._methods),
        plain=self._stream(prompts, turn),
      )
      yield wave
      for index, text in zip(asked, wave.stream.output.texts, strict=True):
        self._said[index].append(text)

  def _stream(self, prompts: list[Any], turn: int, **methods) -> api.Stream:
    key = jax.random.key(self._seed)
    if turn:
      key = jax.random.fold_in(key, 2**32 - turn)
    return api.stream(
      self._target,
      prompts,
      key=key,
      chat=self._chat,
      rounds_per_event=_ROUNDS,
      **{**self._options, **methods},
    )

  def _prompt(self, index: int) -> conversations.Prompt:
    return conversations.prompt(
      self._target.tokenizer,
      self._questions[index],
      self._said[index],
      self._chat,
    )


def compare(output: api.Output, plain: api.Output) -> dict[str, Any]:
  """Plain decoding of one answer, to stand beside it."""
  beside = figures(plain.row_stats[0], plain.row_timings[0])
  names = ("new_tokens", "rounds", "compile_s", "prefill_s", "decode_s")
  return {
    **{name: beside[name] for name in (*names, "tokens_per_s")},
    "identical": output.tokens == plain.tokens,
  }


def record(output: api.Output) -> dict[str, Any]:
  """One answer and its figures, by the names that the project uses."""
  fields = {
    "text": output.texts[0],
    "token_ids": list(output.tokens[0]),
    "finish_reason": output.finish_reasons[0],
    **figures(output.row_stats[0], output.row_timings[0]),
    "rule": output.rule,
    "lossless": output.lossless,
  }
  if output.logprobs is not None:
    fields["logprobs"] = list(output.logprobs[0])
  return fields


def figures(stats: metrics.Stats, timings: api.Timings) -> dict[str, Any]:
  """Counts and times of one row or of several pooled."""
  seconds = timings.decode_s
  return {
    "new_tokens": stats.emitted,
    "rounds": stats.rounds,
    "drafted": stats.drafted,
    "accepted": stats.accepted,
    "accept_lengths": list(stats.accept_lengths),
    "mean_acceptance_length": stats.mean_acceptance_length,
    "draft_acceptance_rate": stats.draft_acceptance_rate,
    "acceptance_per_position": list(stats.acceptance_per_position),
    "compile_s": timings.compile_s,
    "prefill_s": timings.prefill_s,
    "decode_s": seconds,
    "tokens_per_s": stats.emitted / seconds if seconds else None,
  }
