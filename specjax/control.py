"""Draft-length policies: each row's budget, given before anything is drafted.

A budget may read committed rounds only: a length that depended on the tokens
of the round being drafted would change the law of what is kept.
"""

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Int

from specjax.types import Feedback, Proposal, Rows


@dataclasses.dataclass(frozen=True)
class Constant:
  """Every round drafts the row's `max_draft` tokens; 0 is off."""

  def init(self, batch: int) -> Int[Array, "B 0"]:
    return jnp.zeros((batch, 0), jnp.int32)

  def budget(self, control, rows: Rows) -> Int[Array, "B"]:
    del control
    return rows.max_draft

  def update(self, control, rows: Rows, proposal: Proposal, seen: Feedback):
    del rows, proposal, seen
    return control
