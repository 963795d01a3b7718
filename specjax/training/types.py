"""What flows through training.

Axes: B texts, L tokens, K tokens stored of a law, V vocabulary, Vq draft
vocabulary, F width of a feature, D depths of a draft. p is the target's law, q
the drafter's.

Everything is aligned to the token that was *fed*: entry i of a teacher, of a
mask and of a feature belongs to the law after token i, which is the law of
token i + 1. Data is shifted once, where it is made; a head that looks d tokens
further moves teacher and mask together. A teacher's likeliest token is its
entry 0.
"""

from typing import Protocol, runtime_checkable

import jax
from flax import struct
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from specjax.types import Drafter


@struct.dataclass
class Teacher:
  """A target's laws, factored: the likeliest tokens and the mass of the rest.

  Log-probabilities of the whole softmax at temperature 1, so that
  exp(log_probs) sums to 1 - exp(log_tail). A full law has K = V and a log_tail
  of -inf. In a reduced vocabulary `ids` are draft ids, what the draft cannot
  say is taken out (id 0, -inf), and `log_outside` is its mass.
  """

  ids: Int[Array, "*b K"]
  log_probs: Float[Array, "*b K"]
  log_tail: Float[Array, "*b"]
  log_outside: Float[Array, "*b"] | None = None


@struct.dataclass
class Batch:
  """Texts, and what the target said and thought at each token of them.

  `mask[b, i]`: whether the law after token i is to be learnt, that is whether
  token i + 1 is part of an answer. False at padding.
  """

  tokens: Int[Array, "B L"]
  mask: Bool[Array, "B L"]
  teacher: Teacher
  features: dict[str, Float[Array, "B L F"]]


@struct.dataclass
class Sum:
  """A mean before the division, so that parts of a batch add up exactly."""

  total: Float[Array, "*s"]
  count: Float[Array, "*s"]

  def __add__(self, other: "Sum") -> "Sum":
    return jax.tree.map(lambda a, b: a + b, self, other)

  def mean(self) -> Float[Array, "*s"]:
    """total / count; 0 where nothing was counted, never NaN."""
    return self.total / jax.numpy.maximum(self.count, 1)


@struct.dataclass
class Frozen:
  """What a trained drafter shares with its target and does not change.

  `token_ids[j]` is the target's id of draft id j; None is one vocabulary.
  """

  target: PyTree
  token_ids: Int[Array, "Vq"] | None = None


@runtime_checkable
class Trainee(Protocol):
  """What is trained: a frozen, hashable value; weights are passed in.

  Attributes:
    taps: target features that it reads.
    depth: D, how many tokens ahead it is trained and judged.
  """

  @property
  def taps(self) -> tuple[str, ...]: ...
  @property
  def depth(self) -> int: ...

  def init(self, key: Key[Array, ""], frozen: Frozen) -> PyTree:
    """The weights that are trained; the key is consumed."""
    ...

  def loss(
    self, params: PyTree, frozen: Frozen, batch: Batch, key: Key[Array, ""]
  ) -> dict[str, Sum]:
    """ "loss", over valid positions only, and other figures to log."""
    ...

  def acceptance(
    self,
    params: PyTree,
    frozen: Frozen,
    batch: Batch,
    temperature: Float[Array, ""],
  ) -> Sum:
    """Σ min(p, q) at each depth [D] by teacher forcing; at 0 agreement of the
    likeliest tokens. Mass of the teacher's tail counts nothing."""
    ...

  def drafter(self, num_speculative_tokens: int) -> Drafter:
    """What drafts with the weights that `draft_params` gives."""
    ...

  def draft_params(self, params: PyTree, frozen: Frozen) -> PyTree:
    """`Params.draft` of the loop; arrays of the target are shared."""
    ...
