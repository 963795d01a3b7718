"""Whole laws for training, without storing them: the head's input is stored.

A law of 49,152 tokens takes 196 kB; what the target's head reads to state it,
the feature "hidden", takes 1 kB. So a batch gets its laws by one product with
the head. They are as exact as the stored feature's type.
"""

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from specjax.models.heads import vocabulary_rows
from specjax.models.linear import linear
from specjax.training import teacher
from specjax.training.data.batches import Batches
from specjax.training.types import Batch, Teacher

FEATURE = "hidden"


@dataclasses.dataclass(frozen=True, eq=False)
class WholeLaws:
  """The same batches with K = V; memory for B L V pairs is needed.

  Attributes:
    batches: with the feature "hidden".
    target: weights of the target that the labels are of.
    taps: features to keep.
  """

  batches: Batches
  target: PyTree
  taps: Sequence[str]

  @property
  def windows(self) -> int:
    """See `Batches`."""
    return self.batches.windows

  @property
  def answered(self) -> int:
    """See `Batches`."""
    return self.batches.answered

  def __call__(self, step: int) -> Batch:
    """The batch of a step."""
    batch = self.batches(step)
    laws = _whole(batch.features[FEATURE], vocabulary_rows(self.target))
    kept = {name: batch.features[name] for name in self.taps}
    return dataclasses.replace(batch, teacher=laws, features=kept)


@jax.jit
def _whole(hidden: Float[Array, "B L F"], head: Float[Array, "V F"]) -> Teacher:
  logits = linear(hidden.astype(head.dtype), head, jnp.float32)
  return teacher.top_k(logits, head.shape[0])
