"""Prompts through the lanes of one batch: rows join as others finish."""

import collections
import dataclasses
import time
from collections.abc import Sequence
from concurrent import futures
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from specjax import decoding, metrics
from specjax.api.output import Timings
from specjax.api.traces import HostLook
from specjax.passes import Engine
from specjax.types import (
  ACCEPTED,
  EMITTED,
  FINISH_REASONS,
  Params,
  Rows,
  Sampling,
)

_CHUNKS = (32, 64, 128, 256)
_SHARED_CHUNK = 64  # where prompts of many lengths share a program
_UNBOUNDED = 1 << 30
_WARM_LENGTH = 8

_put_row = jax.jit(decoding.put_row, donate_argnames="rows")
_warm: set[Any] = set()  # shapes whose programs have run


def bucket(size: int) -> int:
  """The least of 32, 48, 64, 96, 128, ... that is at least `size`."""
  step = 32
  while step < size:
    if step * 3 // 2 >= size:
      return step * 3 // 2
    step *= 2
  return step


@dataclasses.dataclass
class Row:
  """What the host knows of one prompt; complete after every dispatch."""

  prompt: list[int]
  limit: int
  max_depth: int
  tokens: list[int] = dataclasses.field(default_factory=list)
  logprobs: list[float] = dataclasses.field(default_factory=list)
  history: list[np.ndarray] = dataclasses.field(default_factory=list)
  finish_reason: str | None = None
  timings: Timings = Timings()
  looks: list[HostLook] = dataclasses.field(default_factory=list)

  @property
  def stats(self) -> metrics.Stats:
    history = np.asarray(self.history, np.int32).reshape(-1, 4)
    return metrics.row_stats(history, len(history), self.max_depth)


@dataclasses.dataclass(frozen=True)
class Progress:
  """New tokens of one row, and which are accepted draft tokens."""

  index: int
  tokens: tuple[int, ...]
  accepted: tuple[bool, ...]


class Lanes:
  """Decodes prompts, at most `lanes` of them at a time.

  A prompt's output depends on its key, its settings and nothing else. The sizes
  of buffers and chunks come from a few buckets, so that calls of like sizes
  share their programs.
  """

  def __init__(
    self,
    engine: Engine,
    params: Params,
    rows: Sequence[Row],
    *,
    keys: Key[Array, "n"],
    sampling: Sampling,
    lanes: int,
    logprobs: bool,
    capacity: int | None = None,
    look: bool = False,
  ):
    self.rows = list(rows)
    self.timings = Timings()
    self._engine, self._params = engine, params
    self._keys, self._sampling, self._logprobs = keys, sampling, logprobs
    self._look = look
    longest = max(*(row.limit for row in rows), capacity or 0)
    self._size = min(bucket(longest), engine.model.max_positions)
    self._max_rounds = bucket(max(r.limit - len(r.prompt) for r in rows))
    needed = max(len(row.prompt) for row in rows) - 1
    fitting = next((c for c in _CHUNKS if c >= needed), _CHUNKS[-1])
    self._chunk = fitting if capacity is None else _SHARED_CHUNK
    count = min(lanes, len(rows))
    self._waiting = collections.deque(range(count, len(rows)))
    self._lanes: list[int | None] = list(range(count))  # prompt in each lane
    self._lane_rounds = np.zeros(count, np.int64)
    self._state: Rows | None = None

  @property
  def running(self) -> bool:
    return any(index is not None for index in self._lanes)

  @property
  def lane_use(self) -> float:
    return metrics.lane_use(self._lane_rounds)

  def start(self) -> None:
    """Compiles and reads the first prompts; `step` does it where need be."""
    if self._state is not None:
      return
    begin = time.perf_counter()
    lanes = list(range(len(self._lanes)))
    self._warm_up(lanes, rounds=True)
    if self._waiting:
      self._warm_up([0], rounds=False)
    state = jax.block_until_ready(self._make(lanes))
    compile_s = time.perf_counter() - begin
    state, prefill_s = self._prefill(state)
    spent = Timings(compile_s=compile_s, prefill_s=prefill_s)
    self._spend(spent, [i for i in self._lanes if i is not None])
    self._state = state

  def step(self, max_rounds: int | None = None) -> list[Progress]:
    """Runs rounds and lets waiting prompts in.

    Args:
      max_rounds: at most so many; None is until a row must be replaced, or
        until all are done. One where each round is looked at.

    Returns:
      what each running row got.
    """
    self.start()
    most = 1 if self._look else max_rounds or _UNBOUNDED
    rounds = jnp.asarray(most, jnp.int32)
    enough = len(self._lanes) if self._waiting else 1
    begin = time.perf_counter()
    state = decoding.decode(
      self._engine,
      self._params,
      self._state,
      rounds,
      jnp.asarray(enough, jnp.int32),
    )
    self._state = jax.block_until_ready(state)
    seconds = time.perf_counter() - begin
    self._spend(
      Timings(decode_s=seconds), [i for i in self._lanes if i is not None]
    )
    progress = self._collect(self._state)
    self._refill()
    return progress

  def _make(self, indices: list[int]) -> Rows:
    rows = [self.rows[i] for i in indices]
    tokens = np.zeros((len(rows), self._size), np.int32)
    for line, row in zip(tokens, rows, strict=True):
      line[: len(row.prompt)] = row.prompt
    pick = np.asarray(indices)
    depth = self._engine.drafter.max_depth
    return decoding.init_rows(
      self._engine,
      self._params,
      jnp.asarray(tokens),
      jnp.asarray([len(row.prompt) for row in rows], jnp.int32),
      key=self._keys[pick],
      sampling=jax.tree.map(lambda x: x[pick], self._sampling),
      limit=jnp.asarray([row.limit for row in rows], jnp.int32),
      max_draft=jnp.full((len(rows),), depth, jnp.int32),
      max_rounds=self._max_rounds,
      logprobs=self._logprobs,
      look=self._look,
    )

  def _warm_up(self, indices: list[int], rounds: bool) -> None:
    """Compiles by running what is to be timed, once for each set of shapes.

    The first run of a compiled program costs more than the next. The programs
    are compiled side by side, and run on a few tokens of no meaning.
    """
    state = self._make(indices)
    leaves, form = jax.tree.flatten((self._params, state))
    shapes = tuple((x.shape, str(x.dtype)) for x in leaves)
    lanes = len(self._lanes)
    key = (self._engine, self._chunk, lanes, rounds, form, shapes)
    if key in _warm:
      return
    pool = futures.ThreadPoolExecutor(1)
    try:
      decoded = pool.submit(self._warm_rounds, indices) if rounds else None
      length = jnp.minimum(state.length, self._chunk)
      state, _ = self._prefill(dataclasses.replace(state, length=length))
      if decoded is not None:
        decoded.result()
    finally:
      pool.shutdown(wait=False)  # Ctrl-C waits for no other compilation
    if not rounds:
      _put_row(self._make([0] * lanes), jnp.zeros((), jnp.int32), state)
    _warm.add(key)

  def _warm_rounds(self, indices: list[int]) -> None:
    """One round without a draft and one with, on a text of one token.

    So the narrowest and the widest pass have both run.
    """
    state, one = self._make(indices), jnp.ones((), jnp.int32)
    lanes = len(indices)
    for depth in (0, self._engine.drafter.max_depth):
      state = dataclasses.replace(
        state,
        tokens=jnp.zeros_like(state.tokens),
        length=jnp.full((lanes,), _WARM_LENGTH, jnp.int32),
        limit=jnp.full((lanes,), self._size, jnp.int32),
        max_draft=jnp.full((lanes,), depth, jnp.int32),
        active=jnp.ones((lanes,), bool),
      )
      state = decoding.decode(self._engine, self._params, state, one, one)
    jax.block_until_ready(state)

  def _prefill(self, state: Rows) -> tuple[Rows, float]:
    begin = time.perf_counter()
    state = decoding.prefill(
      self._engine, self._params, state, chunk=self._chunk
    )
    state = jax.block_until_ready(state)
    return state, time.perf_counter() - begin

  def _spend(self, spent: Timings, indices: list[int]) -> None:
    self.timings = _add(self.timings, spent)
    for index in indices:
      row = self.rows[index]
      row.timings = _add(row.timings, spent)

  def _collect(self, state: Rows) -> list[Progress]:
    known = (state.tokens, state.history, state.rounds, state.finish)
    looked = None if state.look is None else dict(vars(state.look))
    seen: Any = jax.device_get((*known, state.logprobs, looked))
    tokens, history, rounds, finish, logprobs, look = seen
    progress = []
    for lane, index in enumerate(self._lanes):
      if index is None:
        continue
      row = self.rows[index]
      new = history[lane, len(row.history) : rounds[lane]]
      start = len(row.prompt) + len(row.tokens)
      added = slice(start, start + int(new[:, EMITTED].sum()))
      flags = [
        place < accepted
        for accepted, emitted in new[:, [ACCEPTED, EMITTED]].tolist()
        for place in range(emitted)
      ]
      values = tuple(tokens[lane, added].tolist())
      row.tokens.extend(values)
      row.history.extend(new)
      if logprobs is not None:
        row.logprobs.extend(logprobs[lane, added].tolist())
      if look is not None and len(new):
        row.looks.append({name: x[lane] for name, x in look.items()})
      row.finish_reason = FINISH_REASONS[finish[lane]]
      self._lane_rounds[lane] += len(new)
      progress.append(Progress(index, values, tuple(flags)))
      if row.finish_reason is not None:
        self._lanes[lane] = None
    return progress

  def _refill(self) -> None:
    for lane, index in enumerate(self._lanes):
      if index is not None or not self._waiting:
        continue
      index = self._waiting.popleft()
      new, seconds = self._prefill(self._make([index]))
      place = jnp.asarray(lane, jnp.int32)
      self._state = jax.block_until_ready(_put_row(self._state, place, new))
      self._lanes[lane] = index
      self._spend(Timings(prefill_s=seconds), [index])


def _add(a: Timings, b: Timings) -> Timings:
  return Timings(
    a.compile_s + b.compile_s,
    a.prefill_s + b.prefill_s,
    a.decode_s + b.decode_s,
  )
