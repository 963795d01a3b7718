"""Many generations of a bigram target and draft, through the decoding loop.

Axes: V tokens, N generations of L tokens, R rounds each at most.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree, UInt32

from specjax import decoding, sampling
from specjax.constraints import Stops
from specjax.control import Constant
from specjax.drafters import DraftModel, NoDraft
from specjax.passes import Engine
from specjax.types import (
  ACCEPTED,
  DRAFTED,
  EMITTED,
  Cache,
  Fresh,
  Params,
  Pass,
  Rows,
  Rule,
  Slots,
)

LONGEST = 10
_BATCH = 1 << 13


@dataclasses.dataclass(frozen=True)
class Bigram:
  """A model whose weights are a table [V, V] of logits, a row a last token.

  It needs nothing of the text but the token fed: its cache, of one layer with
  one head of width 1, is written and never read.
  """

  vocab_size: int
  max_positions: int = 1 << 30

  def init_cache(self, batch: int, capacity: int) -> Cache:
    zero = jnp.zeros((batch, 1, capacity, 1))
    return Cache(((zero, zero),), jnp.zeros((batch,), jnp.int32))

  def __call__(
    self,
    params: PyTree,
    slots: Slots,
    cache: Cache,
    *,
    scratch: Fresh | None = None,
    readout: Int[Array, "#B H"] | None = None,
    taps: tuple[str, ...] = (),
  ) -> Pass:
    del cache, scratch
    if taps:
      raise ValueError("a bigram table has no features")
    logits = params[slots.tokens]
    if readout is not None:
      wanted = jnp.broadcast_to(readout, (len(logits), readout.shape[1]))
      logits = jnp.take_along_axis(logits, wanted[..., None], 1)
    own = slots.tokens.astype(jnp.float32)[:, None, :, None]
    return Pass(logits, Fresh(((own, own),)))


@dataclasses.dataclass(frozen=True)
class Generations:
  """What came out, and how.

  Attributes:
    tokens: of each generation.
    drafted, accepted, emitted: of each round, those past L tokens too.
  """

  tokens: Int[np.ndarray, "N L"]
  drafted: Int[np.ndarray, "N R"]
  accepted: Int[np.ndarray, "N R"]
  emitted: Int[np.ndarray, "N R"]

  def codes(self, size: int) -> Int[np.ndarray, "N"]:
    """Each generation as a number in base `size`, its first token first."""
    return self.tokens @ size ** np.arange(self.tokens.shape[1])[::-1]


class Loop:
  """Generations after a one-token prompt, at temperature 1."""

  def __init__(
    self,
    target: Float[np.ndarray, "V V"],
    draft: Float[np.ndarray, "V V"],
    rule: Rule,
    longest: int = LONGEST,
  ):
    """Takes next-token laws; the longest draft 0 is plain decoding.

    Loops that differ in their laws alone share their programs.
    """
    self._model = Bigram(len(target))
    drafter = DraftModel(self._model, longest) if longest else NoDraft()
    self._engine = Engine(self._model, drafter, rule, Constant(), Stops())
    self._params = Params(_logits(target), _logits(draft))

  def run(
    self,
    count: int,
    start: int,
    *,
    num_speculative_tokens: int = 0,
    length: int | None = None,
    rounds: int | None = None,
    seed: int = 0,
  ) -> Generations:
    """`count` generations, each drawn with a key of its own.

    No draft is cut short: there is room behind the last token that counts.

    Args:
      start: the prompt's token.
      num_speculative_tokens: drafted a round, `longest` at most.
      length, rounds: how many tokens or rounds count; give one of them.
    """
    burst = self._engine.drafter.max_depth + 1
    if rounds is None:
      assert length is not None
      steps, kept, size = length, length, length + burst
    else:
      steps, kept, size = rounds, rounds * burst, rounds * burst
    batch = min(_BATCH, count)
    parts = []
    for first in range(0, count, batch):
      keys = _keys(jnp.uint32(seed), jnp.int32(first), batch)
      rows = self._rows(keys, start, size, steps, num_speculative_tokens)
      rows = decoding.decode(
        self._engine, self._params, rows, jnp.int32(steps), jnp.int32(1)
      )
      history = np.asarray(rows.history)
      counts = (history[..., what] for what in (DRAFTED, ACCEPTED, EMITTED))
      parts.append((np.asarray(rows.tokens)[:, 1 : 1 + kept], *counts))
    return Generations(
      *(np.concatenate(values)[:count] for values in zip(*parts, strict=True))
    )

  def _rows(
    self, keys: Key[Array, "N"], start: int, size: int, rounds: int, budget: int
  ) -> Rows:
    def each(value: int) -> Array:
      return jnp.full(keys.shape, value, jnp.int32)

    tokens = jnp.zeros((len(keys), 1 + size), jnp.int32).at[:, 0].set(start)
    rows = decoding.init_rows(
      self._engine,
      self._params,
      tokens,
      each(1),
      key=keys,
      sampling=sampling.make_sampling(len(keys), temperature=1.0),
      limit=each(1 + size),
      max_draft=each(budget),
      max_rounds=rounds,
    )
    return decoding.prefill(self._engine, self._params, rows, chunk=1)


@functools.partial(jax.jit, static_argnames="batch")
def _keys(
  seed: UInt32[Array, ""], first: Int[Array, ""], batch: int
) -> Key[Array, "{batch}"]:
  key, places = jax.random.key(seed), first + jnp.arange(batch)
  return jax.vmap(jax.random.fold_in, (None, 0))(key, places)


def _logits(law: Float[np.ndarray, "V V"]) -> Float[Array, "V V"]:
  with np.errstate(divide="ignore"):
    return jnp.asarray(np.log(law), jnp.float32)
