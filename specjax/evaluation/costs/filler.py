"""A drafter that always proposes, to time passes and chosen acceptance."""

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Int

from specjax import trees
from specjax.drafters.chain import Chain
from specjax.types import Params, Proposal, Rows, Streams


@dataclasses.dataclass(frozen=True)
class Filler(Chain):
  """Proposes one token over and over, and costs nothing.

  An exact rule nearly always refuses it. For `LossySynthetic(None)` the rates
  of its nodes are `Params.draft`, {"rates": [N]}. A stop token among what is
  kept ends a row: let the rows ignore stops.
  """

  num_speculative_tokens: int = 4
  token: int = 4

  @property
  def widths(self) -> tuple[int, ...]:
    return (1 + self.num_speculative_tokens,)

  def propose(
    self,
    params: Params,
    state,
    rows: Rows,
    budget: Int[Array, "B"],
    keys: Streams,
  ):
    shape = (budget.shape[0], self.num_speculative_tokens)
    tokens = jnp.full(shape, self.token, jnp.int32)
    aux = None if params.draft is None else params.draft["rates"][None]
    return Proposal(trees.chain(tokens, budget), aux=aux), state
