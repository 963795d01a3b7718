"""A draft whose padded vocabulary is not as wide as the target's."""

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from specjax.types import Cache, Fresh, Model, Pass, Slots


@dataclasses.dataclass(frozen=True)
class Resized:
  """`model` with logits cut, or filled up with -inf, to `vocab_size`.

  Only padding may lie past the narrower width: compare the vocabularies first.
  """

  model: Model
  vocab_size: int

  @property
  def max_positions(self) -> int:
    return self.model.max_positions

  def init_cache(self, batch: int, capacity: int) -> Cache:
    return self.model.init_cache(batch, capacity)

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
    known = jnp.minimum(slots.tokens, self.model.vocab_size - 1)
    run = self.model(
      params,
      dataclasses.replace(slots, tokens=known),
      cache,
      scratch=scratch,
      readout=readout,
      taps=taps,
    )
    missing = max(self.vocab_size - self.model.vocab_size, 0)
    logits = jnp.pad(
      run.logits, ((0, 0), (0, 0), (0, missing)), constant_values=-jnp.inf
    )
    return dataclasses.replace(run, logits=logits[..., : self.vocab_size])
