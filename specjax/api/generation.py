"""Strings in, strings out: the whole generation, or a stream of it."""

import collections
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from specjax import acceptance
from specjax.api.answer_text import AnswerText, answer
from specjax.api.lanes import Lanes, Progress, Row
from specjax.api.output import Event, Output
from specjax.api.pairing import check_parts, default_rule
from specjax.api.settings import Prompt, Sampling, encode_prompts
from specjax.api.traces import RoundTrace, trace_rounds
from specjax.checkpoints.loaded import LoadedModel
from specjax.constraints import Stops, StopTables
from specjax.control import Constant
from specjax.drafters import DraftModel, NoDraft
from specjax.drafters.trained import TrainedDraft
from specjax.passes import Engine
from specjax.text import TextError, compare_vocabularies, stop_tables
from specjax.types import Drafter, Params, Rule


def generate(
  target: LoadedModel,
  prompts: Sequence[Prompt],
  *,
  drafter: Drafter | None = None,
  draft: LoadedModel | TrainedDraft | PyTree = None,
  rule: Rule | None = None,
  sampling: Sampling | None = None,
  max_new_tokens: int = 128,
  stop: Sequence[str] = (),
  key: Key[Array, "*n"] | None = None,
  logprobs: bool = False,
  chat: bool | None = None,
  max_batch: int = 32,
  ignore_eos: bool = False,
) -> Output:
  """Decodes prompts with a target and a drafter.

  Args:
    target: from `load_model`.
    prompts: a list of strings, of chats ([{"role": ..., "content": ...}, ...])
      or of token id lists, mixed as you like.
    drafter: what proposes tokens; None is `DraftModel(draft.model)` where a
      draft model is given, else plain decoding.
    draft: the draft's weights, or the loaded draft, whose vocabulary is then
      compared with the target's, or what `load_drafter` gives.
    rule: None is exact match where proposals are point masses (prompt lookup)
      and rejection where they are drawn from a law q (draft models).
    sampling: None is greedy.
    max_new_tokens: at most so many a prompt; the context's end counts too.
    stop: strings that end an answer; they are cut off its text.
    key: a typed key, folded with the prompts' places, or one key a prompt; None
      is jax.random.key(0).
    logprobs: whether to return log-probabilities of the new tokens.
    chat: whether strings go through the chat template; None is where the model
      has one.
    max_batch: rows at a time; others wait and join as rows finish.
    ignore_eos: go on past end-of-text tokens, to measure fixed lengths.

  Returns:
    an entry a prompt. The n-th prompt is decoded with fold_in(key, n): its
    output depends neither on the other prompts nor on `max_batch`.

  Raises:
    ValueError: in one line, before anything is compiled.
  """
  run = Stream(
    target,
    prompts,
    drafter=drafter,
    draft=draft,
    rule=rule,
    sampling=sampling,
    max_new_tokens=max_new_tokens,
    stop=stop,
    key=key,
    logprobs=logprobs,
    chat=chat,
    max_batch=max_batch,
    ignore_eos=ignore_eos,
  )
  run.run_to_end()
  return run.output


def stream(
  target: LoadedModel, prompts: Sequence[Prompt], **options: Any
) -> "Stream":
  """Decodes prompts and yields what each dispatch adds, as `Event`s.

  The programs that `generate` runs, a few rounds at a time.

  Args:
    target, prompts: as for `generate`.
    **options: those of `generate`, rounds_per_event (1), capacity (None): room
      for texts of so many tokens at least, so that prompts of many lengths
      share their programs, and record (False): keep `Stream.traces`.

  Raises:
    ValueError: in one line, before anything is compiled.
  """
  return Stream(target, prompts, **options)


class Stream:
  """Iterates over `Event`s; `output` is complete at every moment.

  An interrupt (Ctrl-C) between two events loses nothing that was yielded.
  """

  def __init__(
    self,
    target: LoadedModel,
    prompts: Sequence[Prompt],
    *,
    drafter: Drafter | None = None,
    draft: LoadedModel | TrainedDraft | PyTree = None,
    rule: Rule | None = None,
    sampling: Sampling | None = None,
    max_new_tokens: int = 128,
    stop: Sequence[str] = (),
    key: Key[Array, "*n"] | None = None,
    logprobs: bool = False,
    chat: bool | None = None,
    max_batch: int = 32,
    ignore_eos: bool = False,
    rounds_per_event: int = 1,
    capacity: int | None = None,
    record: bool = False,
  ):
    sampling = Sampling() if sampling is None else sampling
    for name, value in (
      ("max_new_tokens", max_new_tokens),
      ("max_batch", max_batch),
      ("rounds_per_event", rounds_per_event),
      ("capacity", 1 if capacity is None else capacity),
    ):
      if not isinstance(value, (int, np.integer)):
        raise ValueError(f"{name} must be a whole number, got {value!r:.40}")
      if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")
    strings = isinstance(stop, Sequence) and not isinstance(stop, str)
    if not strings or not all(isinstance(text, str) for text in stop):
      raise ValueError(f"stop must be a list of strings, got {stop!r}")
    encoded = encode_prompts(target, prompts, chat)
    context = target.model.max_positions
    drafter, draft_params = _with_draft(target, drafter, draft)
    check_parts(drafter, rule)
    if drafter.max_depth >= context:
      raise ValueError(
        f"drafts of {drafter.max_depth} tokens do not fit the context of"
        f" {context}: lower num_speculative_tokens"
      )
    rows = [
      Row(
        prompt=ids,
        limit=min(len(ids) + max_new_tokens, context),
        max_depth=drafter.max_depth,
      )
      for ids in encoded
    ]
    params = Params(target.params, draft_params, _stops(target, tuple(stop)))
    if rule is None:
      rule = default_rule(target.model, drafter, params)
    acceptance.check_pair(drafter, rule)
    tokenizer = target.tokenizer
    ends = () if ignore_eos or tokenizer is None else tokenizer.eos_ids
    self._target, self._stop = target, tuple(stop)
    self._rule, self._logprobs = rule, logprobs
    self._lossless = acceptance.is_lossless(drafter, rule)
    self._rounds = rounds_per_event
    self._texts = [
      AnswerText(tokenizer, self._stop) if tokenizer else None for _ in rows
    ]
    # Of a dispatch, not yet yielded: a loop that is left may be gone on with.
    self._waiting: collections.deque[Progress] = collections.deque()
    self._lanes = Lanes(
      Engine(target.model, drafter, rule, Constant(), Stops(eos_ids=ends)),
      params,
      rows,
      keys=_row_keys(key, len(rows)),
      sampling=sampling.rows(len(rows)),
      lanes=max_batch,
      logprobs=logprobs,
      capacity=capacity,
      look=record,
    )

  def __iter__(self) -> Iterator[Event]:
    while self._waiting or self._lanes.running:
      if not self._waiting:
        self._waiting.extend(self._lanes.step(self._rounds))
      if self._waiting:
        yield self._event(self._waiting.popleft())

  def start(self) -> None:
    """Compiles and reads the prompts; iterating does it where need be."""
    self._lanes.start()

  def run_to_end(self) -> None:
    """Decodes all that is left without events."""
    while self._lanes.running:
      self._lanes.step()

  @property
  def output(self) -> Output:
    """Results so far."""
    return self.select(range(len(self._lanes.rows)))

  def select(self, indices: Sequence[int]) -> Output:
    """Results so far of some prompts; `timings` are still the whole call's."""
    rows = [self._lanes.rows[i] for i in indices]
    tokenizer = self._target.tokenizer
    return Output(
      texts=tuple(
        answer(tokenizer, row.tokens, self._stop, row.finish_reason)
        if tokenizer
        else ""
        for row in rows
      ),
      tokens=tuple(tuple(row.tokens) for row in rows),
      finish_reasons=tuple(row.finish_reason for row in rows),
      row_stats=tuple(row.stats for row in rows),
      row_timings=tuple(row.timings for row in rows),
      timings=self._lanes.timings,
      logprobs=(
        tuple(tuple(row.logprobs) for row in rows) if self._logprobs else None
      ),
      rule=self._rule.name,
      lossless=self._lossless,
      lane_use=self._lanes.lane_use,
    )

  @property
  def prompt_ids(self) -> tuple[tuple[int, ...], ...]:
    """Token ids of each prompt as it was read, with its template."""
    return tuple(tuple(row.prompt) for row in self._lanes.rows)

  @property
  def rounds(self) -> tuple[tuple[tuple[int, int, int, int], ...], ...]:
    """Each prompt's rounds so far: (drafted, accepted, emitted, width)."""
    return tuple(
      tuple((int(d), int(a), int(e), int(w)) for d, a, e, w in row.history)
      for row in self._lanes.rows
    )

  @property
  def traces(self) -> tuple[tuple[RoundTrace, ...], ...]:
    """Each prompt's rounds so far, where `record` was asked for."""
    return tuple(
      trace_rounds(row.looks, row.history, row.tokens)
      for row in self._lanes.rows
    )

  def _event(self, progress: Progress) -> Event:
    text = self._texts[progress.index]
    reason = self._lanes.rows[progress.index].finish_reason
    return Event(
      index=progress.index,
      tokens=progress.tokens,
      accepted=progress.accepted,
      pieces=(
        text.feed(progress.tokens, progress.accepted, reason) if text else ()
      ),
      finish_reason=reason,
    )


def _with_draft(
  target: LoadedModel, drafter: Drafter | None, draft: Any
) -> tuple[Drafter, PyTree]:
  if isinstance(draft, TrainedDraft):
    if drafter is None:
      raise ValueError(
        f"{draft.name} is a trained drafter's weights: give its drafter too, as"
        " specjax.load_drafter returns both"
      )
    return drafter, draft.params
  if not isinstance(draft, LoadedModel):
    return NoDraft() if drafter is None else drafter, draft
  if target.tokenizer and draft.tokenizer:
    if draft.tokenizer is not target.tokenizer:
      compare_vocabularies(target.tokenizer, draft.tokenizer)
  if drafter is None:
    if draft.model.vocab_size != target.model.vocab_size:
      raise ValueError(
        f"the draft's vocabulary is {draft.model.vocab_size} wide and the"
        f" target's {target.model.vocab_size}: use"
        " specjax.drafters.resolve, which makes them equal"
      )
    drafter = DraftModel(draft.model)
  return drafter, draft.params


def _stops(target: LoadedModel, stop: tuple[str, ...]) -> StopTables | None:
  if not stop:
    return None
  if target.tokenizer is None:
    raise TextError(f"{target.name} has no tokenizer to find stop strings with")
  if any("\ufffd" in text for text in stop):
    raise TextError(
      "a stop string must not contain U+FFFD, which stands for broken text"
    )
  table = stop_tables(target.tokenizer, stop, target.model.vocab_size)
  return StopTables(jnp.asarray(_bucketed(table)))


def _bucketed(table: np.ndarray) -> np.ndarray:
  """The automaton with unreachable states before the last, which is the hit.

  A program is compiled for a number of states: other stop strings of like
  length then share it.
  """
  hit = len(table) - 1
  extra = -len(table) % 16
  table = np.where(table == hit, hit + extra, table)
  return np.insert(table, [hit] * extra, 0, axis=0)


def _row_keys(key: Any, count: int) -> Key[Array, "n"]:
  if key is None:
    key = jax.random.key(0)
  dtype = getattr(key, "dtype", None)
  if dtype is None or not jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key):
    raise ValueError("key must be a typed key, as jax.random.key(0) makes it")
  if key.ndim == 0:
    places = np.arange(count, dtype=np.uint32)
    return jax.vmap(jax.random.fold_in, (None, 0))(key, places)
  if key.shape != (count,):
    raise ValueError(f"keys of shape {key.shape} for {count} prompts")
  return key
