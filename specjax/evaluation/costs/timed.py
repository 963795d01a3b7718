"""Answers timed as one dispatch each, on prompts that were read before."""

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from specjax import decoding, metrics
from specjax.acceptance import ExactMatch
from specjax.constraints import Stops
from specjax.control import Constant
from specjax.drafters import NoDraft
from specjax.evaluation import timing
from specjax.passes import Engine
from specjax.types import Cache, Drafter, Model, Params, Rows, Rule, Sampling

_CHUNK = 64


@dataclasses.dataclass(frozen=True)
class Timed:
  """One answer: its seconds of decoding alone, its rounds and its tokens.

  Attributes:
    rounds: (drafted, accepted, emitted, width) of each, in order.
  """

  seconds: float
  rounds: tuple[tuple[int, int, int, int], ...]
  tokens: tuple[int, ...]
  prompt_tokens: int

  def stats(self, max_depth: int) -> metrics.Stats:
    """Figures of its rounds, for drafts of at most that depth."""
    history = np.asarray(self.rounds, np.int32).reshape(-1, 4)
    return metrics.row_stats(history, len(history), max_depth)


class Desk:
  """Decodes prompts of one target, one at a time.

  What the target has read of a prompt is kept, and shared by all drafters
  without a state.
  """

  def __init__(
    self,
    model: Model,
    params: PyTree,
    *,
    capacity: int,
    new_tokens: int,
    eos_ids: tuple[int, ...] = (),
  ):
    """
    Args:
      model, params: the target.
      capacity: of the buffers, at least a prompt and its new tokens.
      new_tokens: at most so many an answer.
      eos_ids: end an answer; none, and every way of decoding does as much.
    """
    self.model, self.params = model, params
    self._stops = Stops(eos_ids)
    self.capacity, self.new_tokens = capacity, new_tokens
    self._caches: dict[tuple[int, ...], Cache] = {}

  def engine(self, drafter: Drafter, rule: Rule | None = None) -> Engine:
    """Of a drafter and a rule; `NoDraft()` is plain decoding."""
    rule = ExactMatch() if rule is None else rule
    return Engine(self.model, drafter, rule, Constant(), self._stops)

  def read(
    self,
    engine: Engine,
    draft: PyTree,
    prompt: Sequence[int],
    law: Sampling,
    seed: int = 0,
  ) -> Rows:
    """A row that has read its prompt, for `law` of one row.

    Raises:
      ValueError: the prompt and the new tokens do not fit the buffers.
    """
    length, params = len(prompt), Params(self.params, draft)
    if length + self.new_tokens > self.capacity:
      raise ValueError(
        f"a prompt of {length} tokens and {self.new_tokens} new ones do not fit"
        f" buffers of {self.capacity}"
      )
    tokens = np.zeros((1, self.capacity), np.int32)
    tokens[0, :length] = prompt
    rows = decoding.init_rows(
      engine,
      params,
      jnp.asarray(tokens),
      jnp.full((1,), length, jnp.int32),
      key=jax.random.key(seed)[None],
      sampling=law,
      limit=jnp.full((1,), length + self.new_tokens, jnp.int32),
      max_draft=jnp.full((1,), engine.drafter.max_depth, jnp.int32),
      max_rounds=self.capacity,
    )
    if jax.tree.leaves(rows.draft):
      return decoding.prefill(engine, params, rows, chunk=_CHUNK)
    cache = self._cache(tuple(prompt), rows, law)
    return dataclasses.replace(rows, cache=cache)

  def _cache(self, prompt: tuple[int, ...], rows: Rows, law) -> Cache:
    """A copy of what the target holds of a prompt."""
    if prompt not in self._caches:
      plain = self.engine(NoDraft())
      rows = dataclasses.replace(rows, draft=())
      read = decoding.prefill(
        plain, Params(self.params), _copy(rows), chunk=_CHUNK
      )
      self._caches[prompt] = read.cache
    return _copy(self._caches[prompt])

  def decode(self, engine: Engine, draft: PyTree, rows: Rows) -> Timed:
    """Runs a row to its end in one dispatch; it is given away."""
    start = int(rows.length[0])
    jax.block_until_ready(rows)
    most = jnp.asarray(self.capacity, jnp.int32)
    one = jnp.ones((), jnp.int32)
    done: list[Rows] = []

    def run():
      params = Params(self.params, draft)
      done[:] = [decoding.decode(engine, params, rows, most, one)]
      return done

    spent = timing.seconds(run)
    end = done[0]
    count, length = int(end.rounds[0]), int(end.length[0])
    history = np.asarray(end.history)[0, :count].tolist()
    return Timed(
      seconds=spent,
      rounds=tuple(tuple(r) for r in history),
      tokens=tuple(np.asarray(end.tokens)[0, start:length].tolist()),
      prompt_tokens=start,
    )


def _copy(tree: PyTree) -> PyTree:
  return jax.tree.map(lambda x: x.copy(), tree)
