"""What a draft that was cut from its target reads of the target's weights."""

import dataclasses

from jaxtyping import Array, Int, PyTree

from specjax.models.config import DecoderConfig
from specjax.models.heads import vocabulary_rows


@dataclasses.dataclass(frozen=True)
class Shared:
  """Weights of a draft that are its target's: not trained, not stored.

  Attributes:
    embedding: read tokens with the target's embedding.
    head: of the target's head, the rows of the draft vocabulary.
    layers: the first so many layers are the target's first ones.
  """

  embedding: bool = True
  head: bool = False
  layers: int = 0

  def names(self, config: DecoderConfig) -> tuple[str, ...]:
    """Top-level names in a decoder's weights."""
    names = [f"layers_{i}" for i in range(self.layers)]
    names += ["embed"] * self.embedding
    return (*names, *["head"] * (self.head and config.own_head))

  def complete(
    self,
    own: PyTree,
    target: PyTree,
    config: DecoderConfig,
    token_ids: Int[Array, "Vq"] | None,
  ) -> PyTree:
    """The draft's weights: its own, and the target's under these names.

    Args:
      own: what was trained.
      target: weights of the target.
      config: of the draft.
      token_ids: of a reduced vocabulary, None is the whole.
    """
    shared = {
      name: target[name] for name in self.names(config) if name != "head"
    }
    if self.head and config.own_head:
      shared["head"] = {"kernel": vocabulary_rows(target, token_ids)}
    return {**own, **shared}
