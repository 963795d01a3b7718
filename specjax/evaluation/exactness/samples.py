"""Many short outputs of one prompt, as fast as a batch allows."""

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key

from specjax import decoding
from specjax.passes import Engine
from specjax.types import ACCEPTED, DRAFTED, EMITTED, Params, Sampling

_CHUNK = 32


@dataclasses.dataclass(frozen=True)
class Samples:
  """Outputs, and what the rounds that made their tokens did.

  Attributes:
    tokens: the first L new tokens of each sample.
    rounds: that it took to make them.
    drafted, accepted: summed over those rounds and all samples.
  """

  tokens: Int[np.ndarray, "N L"]
  rounds: Int[np.ndarray, "N"]
  drafted: int
  accepted: int


class Sampler:
  """Draws the first `length` new tokens after a prompt, `batch` at a time.

  The prompt is read once and its row copied, every copy with a key of its own.
  Every other row drafts one token a round instead of the whole depth, so that
  the tokens span more rounds. Rows may go on for a draft's depth past `length`,
  so that no draft of the rounds that count is cut short. End-of-text tokens are
  tokens like others.
  """

  def __init__(
    self,
    engine: Engine,
    params: Params,
    prompt: Sequence[int],
    sampling: Sampling,
    length: int,
    batch: int,
  ):
    """Reads the prompt; `sampling` is that of one row."""
    self.engine, self.length, self.batch = engine, length, batch
    self._params = params
    depth, known = engine.drafter.max_depth, len(prompt)
    size = known + length + depth
    tokens = np.zeros((1, size), np.int32)
    tokens[0, :known] = prompt

    def one(value):
      return jnp.full((1,), value, jnp.int32)

    rows = decoding.init_rows(
      engine,
      params,
      jnp.asarray(tokens),
      one(known),
      key=jax.random.key(0)[None],
      sampling=sampling,
      limit=one(size),
      max_draft=one(depth),
      max_rounds=length,
    )
    self._row = decoding.prefill(engine, params, rows, chunk=_CHUNK)
    self._begin = known

  def draw(self, key: Key[Array, ""], number: int) -> Samples:
    """Samples 0 to `number`; sample i is drawn with fold_in(key, i)."""
    parts = [self._draw(key, i) for i in range(0, number, self.batch)]
    tokens, starts, history = (
      np.concatenate(x)[:number] for x in zip(*parts, strict=True)
    )
    counts = (history[..., EMITTED] > 0) & (starts < self.length)
    return Samples(
      tokens=tokens,
      rounds=counts.sum(1),
      drafted=int(history[..., DRAFTED][counts].sum()),
      accepted=int(history[..., ACCEPTED][counts].sum()),
    )

  def _draw(self, key, first: int):
    places = first + jnp.arange(self.batch)
    rows = decoding.take_rows(self._row, jnp.zeros_like(places))
    keys = jax.vmap(jax.random.fold_in, (None, 0))(key, places)
    depth = self.engine.drafter.max_depth
    budgets = jnp.where(places % 2 == 0, depth, min(depth, 1))
    rows = decoding.decode(
      self.engine,
      self._params,
      dataclasses.replace(rows, key=keys, max_draft=budgets),
      jnp.asarray(self.length, jnp.int32),
      jnp.asarray(1, jnp.int32),
    )
    end = self._begin + self.length
    history = np.asarray(rows.history)
    emitted = history[..., EMITTED]
    starts = np.cumsum(emitted, 1) - emitted  # tokens before each round
    return np.asarray(rows.tokens)[:, self._begin : end], starts, history
