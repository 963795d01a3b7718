"""Drafters that drive the loop where no method would: scripted refusals."""

import dataclasses

import jax.numpy as jnp

from specjax import passes, trees
from specjax.types import Feedback, Params, Proposal, Rows, Streams


@dataclasses.dataclass(frozen=True)
class Recital:
  """Proposes a text it was given, with one wrong token at an offset in turn.

  `Params.draft` is {"text": [B T]}, what the rows will say; round r of a row
  goes wrong at node r % (budget + 1), none where that is the budget itself.
  """

  max_depth: int

  siblings = "chain"
  num_riders = 0
  taps = ()
  reads_logits = False

  @property
  def num_nodes(self) -> int:
    return self.max_depth

  @property
  def widths(self) -> tuple[int, ...]:
    return (1, 1 + self.max_depth)

  def init(self, params: Params, batch: int, capacity: int):
    return ()

  def observe(self, params: Params, state, seen: Feedback):
    return state

  def propose(self, params: Params, state, rows: Rows, budget, keys: Streams):
    text = jnp.asarray(params.draft["text"])
    tokens = passes.gather_tokens(text, rows.length, self.max_depth)
    wrong_at = (rows.rounds % (budget + 1))[:, None]
    wrong = jnp.arange(self.max_depth)[None] == wrong_at
    tokens = jnp.where(wrong, jnp.where(tokens > 0, tokens - 1, 1), tokens)
    return Proposal(trees.chain(tokens, budget)), state
