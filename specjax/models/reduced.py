"""Drafts that say only some of the target's tokens.

FR-Spec, Zhao et al. 2025 (arXiv 2502.14856): the head keeps the rows of the
frequent tokens. The rest has probability 0 under q, which every exact rule
allows.
"""

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from specjax.types import Cache, Fresh, Model, Pass, Slots


def to_target_vocabulary(
  logits: Float[Array, "*b Vq"], token_ids: Int[Array, "Vq"], vocab_size: int
) -> Float[Array, "*b V"]:
  """Logits over the target's vocabulary: -inf for what the draft cannot say.

  Args:
    logits: over draft ids.
    token_ids: the target's id of each draft id, ascending, none twice. (EAGLE-3
      files hold offsets instead: id + d2t[id].)
    vocab_size: V.
  """
  # A column's place among the draft's, Vq where it has none. A gather by it is
  # one vector pass; a scatter of the logits goes element by element.
  size = token_ids.shape[0]
  place = jnp.full((vocab_size,), size, jnp.int32)
  place = place.at[token_ids].set(
    jnp.arange(size, dtype=jnp.int32), mode="drop", unique_indices=True
  )
  extra = [(0, 0)] * (logits.ndim - 1) + [(0, 1)]
  logits = jnp.pad(logits, extra, constant_values=-jnp.inf)
  return jnp.take(logits, place, axis=-1, mode="clip")


@dataclasses.dataclass(frozen=True)
class Reduced:
  """`model`, whose head has Vq outputs, with logits over `vocab_size` tokens.

  It reads the target's ids. Weights are {"model": the model's, "token_ids":
  [Vq] ascending}; a decoder has so many outputs by `DecoderConfig.head_size`.
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
    run = self.model(
      params["model"],
      slots,
      cache,
      scratch=scratch,
      readout=readout,
      taps=taps,
    )
    logits = to_target_vocabulary(
      run.logits, params["token_ids"], self.vocab_size
    )
    return dataclasses.replace(run, logits=logits)
