"""Conversations that a model makes itself: queries of its own, or given ones.

Batches through the refilled lanes of the library's own loop. The n-th
conversation depends on (seed, n) alone: neither on the batch, nor on where a
run was stopped, nor on the drafter.
"""

import dataclasses
import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Key

from specjax.api import Sampling, Stream
from specjax.checkpoints.loaded import LoadedModel
from specjax.text import Tokenizer
from specjax.training.data.conversations import Conversation, prompt_id
from specjax.training.data.identity import identify
from specjax.training.data.prompts import Prompt, chat_prompt, open_turn
from specjax.training.data.writing import Progress, Writer, claim
from specjax.types import Drafter

_QUERY, _ANSWER = 0, 1  # streams of random numbers
_ROUNDS = 32  # between two looks of the host


@dataclasses.dataclass(frozen=True)
class Making:
  """How conversations are made.

  Attributes:
    count: queries tried; those that are dropped count, so that the n-th
      conversation is the same however many there are.
    seed: of all draws.
    temperatures: of the answers, taken in turns: row n has the n-th of them.
    max_new_tokens: of an answer.
    max_prompt_tokens: of a rendered prompt; longer ones are dropped.
    query_temperature: of synthetic queries.
    max_query_tokens: a synthetic query that has not ended by then is dropped.
    min_query_tokens: one of fewer tokens is dropped.
    cut_queries: whether a query that has not ended is asked as far as it is, as
      a model needs that was tuned on texts which are no chats.
    batch: rows at a time. Changes no conversation.
    group: conversations whose queries are made before their answers; a run
      that is killed loses at most the queries of a group. Changes nothing else.

  Raises:
    ValueError: a number out of its range.
  """

  count: int
  seed: int = 0
  temperatures: tuple[float, ...] = (1.0,)
  max_new_tokens: int = 256
  max_prompt_tokens: int = 256
  query_temperature: float = 1.0
  max_query_tokens: int = 128
  min_query_tokens: int = 4
  cut_queries: bool = False
  batch: int = 32
  group: int = 512

  def __post_init__(self):
    for name in (
      "count",
      "max_new_tokens",
      "max_prompt_tokens",
      "max_query_tokens",
      "min_query_tokens",
      "batch",
      "group",
    ):
      if getattr(self, name) < 1:
        raise ValueError(
          f"{name} must be at least 1, got {getattr(self, name)}"
        )
    if not self.temperatures:
      raise ValueError("temperatures must name one temperature or more")
    Sampling(temperature=list(self.temperatures))
    Sampling(temperature=self.query_temperature)
    if not 0 <= self.seed < 2**32:
      raise ValueError(f"seed must be 0 to {2**32 - 1}, got {self.seed}")

  def settings(self) -> dict[str, Any]:
    """What decides the n-th conversation."""
    free = {"count", "batch", "group"}
    if not self.cut_queries:
      free.add("cut_queries")  # files from before there was a choice
    return {k: v for k, v in vars(self).items() if k not in free}


def make_synthetic(
  target: LoadedModel,
  path: Path,
  making: Making,
  *,
  drafter: Drafter | None = None,
  say: Callable[[str], None] = lambda line: None,
) -> Progress:
  """Lets a chat model write queries and answer them (Magpie).

  Xu et al. 2024 (arXiv 2406.08464), section 2.1. Queries that are empty,
  shorter than `min_query_tokens`, without an end or a repetition of an earlier
  one are dropped, and noted in the file with the reason.

  Args:
    target: writes both, each as a chat of its own.
    path: JSONL, appended to as conversations are done. The same call goes on
      with a file that a stopped one left.
    making: how.
    drafter: what proposes tokens; None is plain decoding.
    say: gets progress with the rate and the time left, a line at a time.

  Returns:
    counts of this run.

  Raises:
    ValueError: in one line: a model without a chat template, a file of other
      settings.
  """
  tokenizer = _tokenizer(target)
  turn = open_turn(tokenizer)
  _check_room(target, making, len(turn.token_ids))
  settings = {"source": "synthetic", "model": identify(target)}

  def ask(numbers: range, writer: Writer, progress: Progress):
    return _queries(
      target, turn, numbers, making, drafter, writer.prompt_ids, progress
    )

  with claim(path, {**settings, **making.settings()}) as writer:
    return _make(target, writer, ask, making, "synthetic", drafter, say)


def answer_prompts(
  model: LoadedModel,
  path: Path,
  prompts: Sequence[Prompt],
  making: Making,
  *,
  source: str = "prompt",
  drafter: Drafter | None = None,
  say: Callable[[str], None] = lambda line: None,
) -> Progress:
  """Lets a model answer given prompts.

  With a draft as the model and `stored_prompts` these are on-policy contexts
  (Zhou et al. 2023, DistillSpec, arXiv 2310.08461): source is then "draft", and
  a store of the target's labels takes them like any other text.

  Args:
    model: that answers.
    path, drafter, say: as for `make_synthetic`.
    prompts: of `read_prompts` or `stored_prompts`; with a larger count they
      are answered again, with other draws.
    making: how; what concerns queries is not used.
    source: "prompt" or "draft".

  Returns:
    counts of this run.

  Raises:
    ValueError: in one line: no prompts, another source, a file of other
      settings.
  """
  if source not in ("prompt", "draft"):
    raise ValueError(f'source must be "prompt" or "draft", got {source!r}')
  if not prompts:
    raise ValueError("there is no prompt to answer")
  _check_room(model, making)
  asked = repr([p.token_ids for p in prompts]).encode()
  settings = {
    "source": source,
    "model": identify(model),
    "prompts": hashlib.sha256(asked).hexdigest()[:16],
  }

  def ask(numbers: range, writer: Writer, progress: Progress):
    return [_fitting(prompts[n % len(prompts)], making) for n in numbers]

  with claim(path, {**settings, **making.settings()}) as writer:
    return _make(model, writer, ask, making, source, drafter, say)


def _make(
  model: LoadedModel,
  writer: Writer,
  ask: Callable[[range, Writer, Progress], list[Prompt | str]],
  making: Making,
  source: str,
  drafter: Drafter | None,
  say: Callable[[str], None],
) -> Progress:
  """Group after group: prompts, or reasons to drop them; then answers.

  Lines are written in the order of their numbers, so that a file says how far
  it is by its length alone.
  """
  progress = Progress(making.count, writer.next_number, say)
  progress.dropped = writer.dropped
  while writer.next_number < making.count:
    first = writer.next_number
    numbers = range(first, min(first + making.group, making.count))
    prompts = ask(numbers, writer, progress)
    kept = [p for p in prompts if isinstance(p, Prompt)]
    at = [
      n for n, p in zip(numbers, prompts, strict=True) if isinstance(p, Prompt)
    ]
    answers = _answers(model, kept, at, making, drafter, progress)
    for number, prompt in zip(numbers, prompts, strict=True):
      if isinstance(prompt, str):
        writer.drop(number, prompt)
      else:
        ids = (*prompt.token_ids, *next(answers))
        writer.keep(
          Conversation(
            id=str(number),
            source=source,
            token_ids=ids,
            answers=((len(prompt.token_ids), len(ids)),),
            temperature=_temperature(making, number),
            prompt_id=prompt.prompt_id,
          )
        )
      progress.done = writer.next_number
      progress.tell()
  progress.tell(last=True)
  return progress


def _queries(
  target: LoadedModel,
  turn,
  numbers: range,
  making: Making,
  drafter: Drafter | None,
  known: set[str],
  progress: Progress,
) -> list[Prompt | str]:
  """A prompt for each number, or why there is none."""
  tokenizer = _tokenizer(target)
  run = Stream(
    target,
    [turn.token_ids] * len(numbers),
    drafter=drafter,
    sampling=Sampling(temperature=making.query_temperature),
    max_new_tokens=making.max_query_tokens,
    stop=turn.stop,
    key=_keys(making, _QUERY, list(numbers)),
    max_batch=making.batch,
    rounds_per_event=_ROUNDS,
  )
  for event in _timed(run, progress):
    progress.tokens += len(event.tokens)
    progress.tell()
  output, seen = run.output, set(known)
  found: list[Prompt | str] = []
  for text, tokens, reason in zip(
    output.texts, output.tokens, output.finish_reasons, strict=True
  ):
    query = _query(tokenizer, text.strip(), len(tokens), reason, making, seen)
    if isinstance(query, Prompt):
      seen.add(query.prompt_id)
    found.append(query)
  return found


def _query(
  tokenizer: Tokenizer,
  text: str,
  size: int,
  reason: str | None,
  making: Making,
  seen: set[str],
) -> Prompt | str:
  if not text:
    return "empty"
  if reason == "length" and not making.cut_queries:
    return "endless"
  if size <= making.min_query_tokens:  # its end is a token too
    return "short"
  if prompt_id(text) in seen:
    return "duplicate"
  message = [{"role": "user", "content": text}]
  return _fitting(chat_prompt(tokenizer, message), making)


def _fitting(prompt: Prompt, making: Making) -> Prompt | str:
  return prompt if len(prompt.token_ids) <= making.max_prompt_tokens else "long"


def _answers(
  model: LoadedModel,
  prompts: list[Prompt],
  numbers: list[int],
  making: Making,
  drafter: Drafter | None,
  progress: Progress,
) -> Iterator[list[int]]:
  """Token ids of each answer in turn, as soon as it and those before are."""
  if not prompts:
    return
  run = Stream(
    model,
    [list(p.token_ids) for p in prompts],
    drafter=drafter,
    sampling=Sampling(temperature=[_temperature(making, n) for n in numbers]),
    max_new_tokens=making.max_new_tokens,
    key=_keys(making, _ANSWER, numbers),
    max_batch=making.batch,
    rounds_per_event=_ROUNDS,
    capacity=making.max_prompt_tokens + making.max_new_tokens,
  )
  tokens: list[list[int]] = [[] for _ in prompts]
  ended, place = set(), 0
  for event in _timed(run, progress):
    tokens[event.index].extend(event.tokens)
    progress.tokens += len(event.tokens)
    progress.tell()
    if event.finish_reason is not None:
      ended.add(event.index)
    while place in ended:
      yield tokens[place]
      place += 1


def _timed(run: Stream, progress: Progress) -> Iterator[Any]:
  run.start()
  progress.waited_s += run.output.timings.compile_s
  yield from run


def _keys(making: Making, purpose: int, numbers: list[int]) -> Key[Array, "n"]:
  base = jax.random.fold_in(jax.random.key(making.seed), purpose)
  places = np.asarray(numbers, np.uint32)
  return jax.vmap(jax.random.fold_in, (None, 0))(base, places)


def _temperature(making: Making, number: int) -> float:
  return making.temperatures[number % len(making.temperatures)]


def _tokenizer(model: LoadedModel) -> Tokenizer:
  if model.tokenizer is None:
    raise ValueError(f"{model.name} has no tokenizer to read queries with")
  return model.tokenizer


def _check_room(
  model: LoadedModel, making: Making, opening: int | None = None
) -> None:
  """Raises ValueError where texts would not fit; no opening, no queries."""
  sizes = {"a conversation": making.max_prompt_tokens + making.max_new_tokens}
  if opening is not None:
    sizes["a query"] = opening + making.max_query_tokens
  for name, size in sizes.items():
    if size > model.model.max_positions:
      raise ValueError(
        f"{name} may take {size} tokens and {model.name} has room for"
        f" {model.model.max_positions}: lower max_query_tokens,"
        " max_prompt_tokens or max_new_tokens"
      )
