"""Jacobi decoding: what the target said in the last pass is guessed next.

Song et al. 2020 (arXiv 2002.03629, section 3.1); Santilli et al. 2023 (arXiv
2305.10427, section 3), whose blocks end where these guesses slide on.
"""

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from specjax import passes, sampling, trees
from specjax.drafters.chain import Chain
from specjax.types import Feedback, Params, Proposal, Rows, Streams

_UNKNOWN = -1


def likeliest(logits: Float[Array, "*k V"]) -> Int[Array, "*k"]:
  """The target's own guess: its likeliest token, NaN counted as none."""
  return sampling.lowest_argmax(jnp.where(jnp.isnan(logits), -jnp.inf, logits))


@dataclasses.dataclass(frozen=True)
class Jacobi(Chain):
  """A chain of guesses, each the target's likeliest token in the last pass.

  A round is a step of y_i <- argmax p(. | text, y_<i) for all i at once, whose
  fixed point is the greedy text. The guesses that a round keeps have converged;
  the others move up past what was emitted, and as many new places open.

  slot      0    1    2    3       y_1 was kept, so y_1 and a_1 are
  fed       x   y_1  y_2  y_3      emitted, and a_2 and a_3 come next
  likeliest a_0  a_1  a_2  a_3
  next                a_2  a_3  a_3

  A place that opens repeats the guess before it, and in the first round the
  last token: any token will do, since the next pass corrects it. A guess is a
  point mass, so the output is exact at any temperature. Guesses are of the raw
  logits, before a constraint bends them.
  """

  num_speculative_tokens: int = 7

  reads_logits = True

  def init(self, params: Params, batch: int, capacity: int):
    shape = (batch, self.num_speculative_tokens)
    return jnp.full(shape, _UNKNOWN, jnp.int32)

  def observe(
    self, params: Params, state: Int[Array, "B N"], seen: Feedback
  ) -> Int[Array, "B N"]:
    if seen.logits is None or seen.nodes is None:
      return state
    size = self.num_speculative_tokens
    slot = jnp.arange(size + 1, dtype=jnp.int32)[None]
    # What a slot says is the guess at the place after it. A slot that was not
    # fed says nothing, and the older guess stays.
    older = jnp.pad(state, ((0, 0), (0, 1)), mode="edge")
    fed = slot <= seen.nodes.count[:, None]
    guesses = jnp.where(fed, likeliest(seen.logits), older)
    place = jnp.minimum(seen.count[:, None] + slot[:, :size], size)
    moved = jnp.take_along_axis(guesses, place, 1)
    return jnp.where(seen.count[:, None] > 0, moved, state)

  def propose(
    self,
    params: Params,
    state: Int[Array, "B N"],
    rows: Rows,
    budget: Int[Array, "B"],
    keys: Streams,
  ):
    last = passes.gather_tokens(rows.tokens, rows.length - 1, 1)
    tokens = jnp.where(state == _UNKNOWN, last, state)
    return Proposal(trees.chain(tokens, budget)), state
