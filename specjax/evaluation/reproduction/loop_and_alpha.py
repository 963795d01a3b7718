"""A drafter in the decoding loop, and alpha on the very texts it gave.

The loop's rule keeps a drafted token with a chance that teacher forcing states:
sum min(p, q) at its place (Leviathan et al. 2023, arXiv 2211.17192, theorem
3.5). So over the tokens that were judged the two agree but for chance, whatever
the models, and without any independence between positions.
"""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from specjax import decoding, metrics, sampling
from specjax.acceptance import Rejection
from specjax.constraints import Stops
from specjax.control import Constant
from specjax.passes import Engine
from specjax.theory import acceptance
from specjax.types import (
  ACCEPTED,
  DRAFTED,
  EMITTED,
  Drafter,
  Model,
  Params,
  Sampling,
)

_CHUNK = 16


@dataclasses.dataclass(frozen=True)
class Spoken:
  """Texts that the loop made of prompts, and how it went there.

  Attributes:
    texts: each prompt with what continues it.
    prompt: tokens of a prompt.
    history, rounds: as in `Rows`.
  """

  texts: Int[np.ndarray, "B T"]
  prompt: int
  history: Int[np.ndarray, "B R 4"]
  rounds: Int[np.ndarray, "B"]

  @functools.cached_property
  def stats(self) -> metrics.Stats:
    """Of all rows together."""
    pairs = zip(self.history, self.rounds.tolist(), strict=True)
    return metrics.pool([metrics.row_stats(*pair) for pair in pairs])

  @functools.cached_property
  def judged(self) -> Bool[np.ndarray, "B N"]:
    """New tokens at which the rule looked at a drafted one: kept it, or not.

    round at token 10 that drafted 4 and kept 2:   10 11 12 | the next at 13
    """
    size = self.texts.shape[1] - self.prompt
    where = np.zeros((len(self.rounds), size), bool)
    for row, count in enumerate(self.rounds.tolist()):
      at = 0
      for record in self.history[row, :count].tolist():
        looked = min(record[ACCEPTED] + 1, record[DRAFTED])
        where[row, at : at + looked] = True
        at += record[EMITTED]
    return where


def speak(
  model: Model,
  drafter: Drafter,
  params: Params,
  prompts: Int[np.ndarray, "B P"],
  *,
  new_tokens: int,
  temperature: float,
  seed: int,
) -> Spoken:
  """Continues every prompt by drafting, under the exact rejection rule."""
  engine = Engine(model, drafter, Rejection(), Constant(), Stops())
  batch, length = prompts.shape
  whole = functools.partial(jnp.full, (batch,), dtype=jnp.int32)
  rows = decoding.init_rows(
    engine,
    params,
    jnp.asarray(np.pad(prompts, ((0, 0), (0, new_tokens))), jnp.int32),
    whole(length),
    key=jax.random.split(jax.random.key(seed), batch),
    sampling=_law(batch, temperature),
    limit=whole(length + new_tokens),
    max_draft=whole(drafter.max_depth),
    max_rounds=new_tokens,
  )
  rows = decoding.prefill(engine, params, rows, chunk=_CHUNK)
  most, one = jnp.asarray(new_tokens, jnp.int32), jnp.ones((), jnp.int32)
  rows = decoding.decode(engine, params, rows, most, one)
  return Spoken(
    np.asarray(rows.tokens),
    length,
    np.asarray(rows.history),
    np.asarray(rows.rounds),
  )


def chances(
  target: Float[Array, "B N V"],
  draft: Float[Array, "B N V"],
  temperature: float,
) -> Float[np.ndarray, "B N"]:
  """sum min(p, q) at every place, from the logits there.

  At temperature 0 both laws are point masses, so it is 1 where the likeliest
  tokens are the same.
  """
  law = _law(target.shape[0], temperature)
  p, q = _dense(target, law), _dense(draft, law)
  return np.asarray(acceptance.acceptance(p, q), np.float64)


@jax.jit
def _dense(logits: Float[Array, "B N V"], law: Sampling) -> Array:
  return sampling.dense(sampling.make_law(logits, law))


def _law(batch: int, temperature: float) -> Sampling:
  """One program for all temperatures: a value, not a switch."""
  return dataclasses.replace(
    sampling.make_sampling(batch, temperature=1.0),
    temperature=jnp.full((batch,), temperature, jnp.float32),
  )


@dataclasses.dataclass(frozen=True)
class Agreement:
  """Tokens a pass as the loop counted them, and as alpha has them.

  Attributes:
    predicted: 1 + sum over the judged tokens of their chance, a round.
    standard_error: of the difference; that sum less the tokens kept is a sum of
      independent draws once the texts are given.
  """

  counted: float
  predicted: float
  standard_error: float


def agreement(spoken: Spoken, chance: Float[np.ndarray, "B N"]) -> Agreement:
  """The loop against the chances at its new tokens."""
  at, rounds = chance[spoken.judged], spoken.stats.rounds
  spread = math.sqrt((at * (1 - at)).sum())
  return Agreement(
    spoken.stats.mean_acceptance_length,
    1 + float(at.sum()) / rounds,
    spread / rounds,
  )
