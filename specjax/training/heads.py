"""Trains heads beside a frozen target: Medusa-1 and Stern's blockwise heads.

Cai et al. 2024 (arXiv 2401.10774), section 2.2.1; Stern et al. 2018 (arXiv
1811.03115), sections 5 and 6.

Axes: B texts, L tokens, K heads, Vq draft vocabulary.
"""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from specjax.drafters.heads import Heads
from specjax.models.heads import Blockwise, Medusa, vocabulary_rows
from specjax.training import losses
from specjax.training.losses import Loss, masked_sum
from specjax.training.teacher import draft_ids_of
from specjax.training.types import Batch, Frozen, Sum, Teacher

# (logits, teacher, what came next, which count) of one head at all positions.
Measure = Callable[
  [
    Float[Array, "B L Vq"],
    Teacher,
    Int[Array, "B L"],
    Bool[Array, "B L"],
  ],
  Sum,
]


def learnable(mask: Bool[Array, "B L"], depth: int) -> Bool[Array, "K B L"]:
  """Where head k, counted from 1, learns: mask[t + 1] to mask[t + k] all hold.

  So head k learns at t exactly where it drafts at inference. A round with L
  committed tokens reads the feature of t = L - 2 and drafts tokens t + 2 to
  t + k + 1, of which the last is head k's; all of them belong to one answer,
  and the first round reads the last prompt token but one.

            prompt  |   answer
    token   0  1  2 | 3  4  5        mask      . . x x x .
    head 1     ^       learns from   . x x x . .
    head 2                           . x x . . .
    head 3                           . x . . . .
  """
  size = mask.shape[1]
  ahead = jnp.pad(mask, ((0, 0), (0, depth)))
  so_far, found = jnp.ones_like(mask), []
  for k in range(1, depth + 1):
    so_far = so_far & ahead[:, k : k + size]
    found.append(so_far)
  return jnp.stack(found)


@dataclasses.dataclass(frozen=True)
class HeadsTrainee:
  """Head k, counted from 1, at token t learns the target's law after t + k.

  The loss is sum_k decay^k l_k, l_k that of head k; its count is that of the
  positions at which head 1 learns. "loss_by_head" is [K], not weighted, each
  with its own count. Only one head's logits are held at a time, in the forward
  and in the backward pass.

  Attributes:
    net: the heads; of the shared vocabulary rows nothing is trained.
    objective: of a head; "sft" is Medusa-1's cross-entropy of the text's own
      tokens.
    decay: weight of a head over that of the head before (Medusa: 0.8).
    one_head: each call takes one head, uniformly drawn, K times (Stern,
      section 6): the loss in expectation, for a K-th of the work.
    vocab_size: V of the target where the net's is reduced.
  """

  net: Medusa | Blockwise
  objective: Loss = Loss("sft")
  decay: float = 0.8
  one_head: bool = False
  vocab_size: int | None = None

  taps = ("hidden",)

  def __post_init__(self):
    if not self.decay > 0:
      raise ValueError(f"decay must be above 0, got {self.decay}")

  @property
  def depth(self) -> int:
    return self.net.num_heads

  def init(self, key: Key[Array, ""], frozen: Frozen) -> PyTree:
    """Every head is the language head at first; the key is consumed.

    Raises:
      ValueError: a net of another size than the target or its token_ids.
    """
    rows = vocabulary_rows(frozen.target, frozen.token_ids)
    wanted = (self.net.vocab_size, self.net.hidden_size)
    if rows.shape != wanted:
      raise ValueError(
        f"heads of {wanted[0]} tokens and width {wanted[1]} do not fit rows of"
        f" shape {rows.shape}"
      )
    return self.net.init(key, rows)

  def loss(
    self, params: PyTree, frozen: Frozen, batch: Batch, key: Key[Array, ""]
  ) -> dict[str, Sum]:
    """See `Trainee.loss`; the key draws the head where `one_head` is set."""
    draft_ids = draft_ids_of(frozen)

    def measure(logits, teacher, tokens, mask):
      return self.objective(logits, teacher, tokens, mask, draft_ids)

    chosen = None
    weight = self.decay ** jnp.arange(1, self.depth + 1)
    if self.one_head:
      chosen = jax.random.randint(key, (), 0, self.depth)
      weight = self.depth * weight
    each = self._measure(params, frozen, batch, measure, chosen)
    positions = learnable(batch.mask, 1).sum().astype(jnp.float32)
    total = (weight * each.total).sum()
    return {"loss": Sum(total, positions), "loss_by_head": each}

  def acceptance(
    self,
    params: PyTree,
    frozen: Frozen,
    batch: Batch,
    temperature: Float[Array, ""],
  ) -> Sum:
    """See `Trainee.acceptance`; entry k - 1 is head k's."""
    draft_ids = draft_ids_of(frozen)

    def measure(logits, teacher, tokens, mask):
      kept = losses.acceptance(logits, teacher, temperature, draft_ids)
      return masked_sum(kept, mask)

    return self._measure(params, frozen, batch, measure, None)

  def drafter(self, num_speculative_tokens: int) -> Heads:
    """A chain of the first heads."""
    return Heads(self.net, num_speculative_tokens, self.vocab_size)

  def draft_params(self, params: PyTree, frozen: Frozen) -> PyTree:
    """The heads' weights, with shared rows and token_ids where there are."""
    if not self.net.own_heads:
      params = params | _shared(frozen)
    if frozen.token_ids is not None:
      params = params | {"token_ids": frozen.token_ids}
    return params

  def _measure(
    self,
    params: PyTree,
    frozen: Frozen,
    batch: Batch,
    measure: Measure,
    chosen: Int[Array, ""] | None,
  ) -> Sum:
    """What `measure` finds of every head [K]; 0 of all but a chosen one."""
    shared = {} if self.net.own_heads else _shared(frozen)
    where = learnable(batch.mask, self.depth)
    # Features that no head reads add exactly nothing, whatever they are.
    hidden = jnp.where(where[0][..., None], batch.features["hidden"], 0)
    trunk = self.net.trunk(params, hidden)
    heads = [params[f"heads_{k}"] for k in range(self.depth)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *heads)
    said, law = jax.tree.map(
      lambda x: _longer(x, self.depth + 1), (batch.tokens, batch.teacher)
    )

    @jax.checkpoint
    def one(k, own, mask):
      logits = self.net.logits_of(shared, own, trunk, hidden)
      size = mask.shape[1]
      teacher = jax.tree.map(lambda x: _after(x, k + 1, size), law)
      tokens = _after(said, k + 2, size)
      return measure(logits, teacher, tokens, mask)

    if chosen is None:
      index = jnp.arange(self.depth)
      return lax.map(lambda given: one(*given), (index, stacked, where))
    own, mask = jax.tree.map(lambda x: x[chosen], (stacked, where))
    found = one(chosen, own, mask)
    there = jnp.arange(self.depth) == chosen
    return jax.tree.map(lambda x: jnp.where(there, x, 0.0), found)


def _shared(frozen: Frozen) -> PyTree:
  """What heads without vocabulary rows of their own read."""
  rows = vocabulary_rows(frozen.target, frozen.token_ids)
  return {"head": {"kernel": rows}}


def _longer(x: Array, extra: int) -> Array:
  """[B L ...] with copies of the last entry behind, which nothing learns."""
  more = ((0, 0), (0, extra), *[(0, 0)] * (x.ndim - 2))
  return jnp.pad(x, more, "edge")


def _after(x: Array, distance: Int[Array, ""], size: int) -> Array:
  """x[:, t + distance] at every t."""
  return lax.dynamic_slice_in_dim(x, distance, size, 1)
