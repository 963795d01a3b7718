"""No drafting: the loop becomes plain decoding."""

import dataclasses

import jax.numpy as jnp

from specjax import trees
from specjax.types import Feedback, Params, Proposal, Rows, Streams


@dataclasses.dataclass(frozen=True)
class NoDraft:
  """Proposes nothing, so that a round is one token."""

  siblings = "chain"
  num_nodes = 0
  num_riders = 0
  max_depth = 0
  widths = (1,)
  taps = ()
  reads_logits = False

  def init(self, params: Params, batch: int, capacity: int):
    return ()

  def observe(self, params: Params, state, seen: Feedback):
    return state

  def propose(self, params: Params, state, rows: Rows, budget, keys: Streams):
    none = jnp.zeros((budget.shape[0], 0), jnp.int32)
    return Proposal(trees.chain(none, jnp.zeros_like(budget))), state
