"""Many generations of a bigram target and draft, through the decoding loop.

Axes: V tokens, N generations of L tokens, R rounds each at most.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, UInt32

from specjax import decoding, sampling
from specjax.constraints import Stops
from specjax.control import Constant
from specjax.drafters import DraftModel, NoDraft
from specjax.evaluation.reproduction.cells import Settings
from specjax.models.table import TableModel
from specjax.passes import Engine
from specjax.types import ACCEPTED, DRAFTED, EMITTED, Params, Rows, Rule

LONGEST = 10
_BATCH = 1 << 12
_SIZES = (4, 32)  # vocabularies that programs are compiled for


def sizes_of(settings: Settings) -> dict[str, int]:
  """How much `Loop.run` plays where rounds are counted: one program for all."""
  return {"count": (1 if settings.quick else 3) * _BATCH, "rounds": 8}


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

    Loops that differ in their laws alone share their programs, and so do small
    vocabularies: tokens that are never drawn fill them up.
    """
    size = _size_for(len(target))
    model = TableModel(size, order=1, reads_cache=False)
    drafter = DraftModel(model, longest) if longest else NoDraft()
    self._engine = Engine(model, drafter, rule, Constant(), Stops())
    self._params = Params(
      *({"table": _logits(_fill_up(law))} for law in (target, draft))
    )

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
    Whole batches run, so that the count is in no program.

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
    parts = []
    for first in range(0, count, _BATCH):
      keys = _keys(jnp.uint32(seed), jnp.int32(first))
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
    # The cache lacks the last token of the prompt, which is all of it.
    return decoding.init_rows(
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


@jax.jit
def _keys(seed: UInt32[Array, ""], first: Int[Array, ""]) -> Key[Array, "N"]:
  key, places = jax.random.key(seed), first + jnp.arange(_BATCH)
  return jax.vmap(jax.random.fold_in, (None, 0))(key, places)


def _size_for(tokens: int) -> int:
  return next(size for size in _SIZES if size >= tokens)


def _fill_up(law: Float[np.ndarray, "v v"]) -> Float[np.ndarray, "V V"]:
  extra = _size_for(len(law)) - len(law)
  wide = np.pad(law, ((0, 0), (0, extra)))
  return np.pad(wide, ((0, extra), (0, 0)), mode="edge")


def _logits(law: Float[np.ndarray, "V V"]) -> Float[Array, "V V"]:
  with np.errstate(divide="ignore"):
    return jnp.asarray(np.log(law), jnp.float32)
