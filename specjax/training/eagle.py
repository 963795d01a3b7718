"""Trains EAGLE drafts: version 3 by its training-time test, version 1 as an
ablation of it.

Li et al. 2025 (arXiv 2503.01840, section 3.2 and figure 6) and the code it came
with; Li et al. 2024 (arXiv 2401.15077, section 4.2).
"""

import dataclasses

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from specjax.drafters.eagle import Eagle
from specjax.models.eagle import EagleHead, EagleParams
from specjax.models.eagle_config import EagleConfig
from specjax.models.heads import vocabulary_rows
from specjax.training import losses
from specjax.training.losses import Loss
from specjax.training.teacher import draft_ids_of
from specjax.training.types import Batch, Frozen, Sum, Teacher
from specjax.training.unroll import unroll


@dataclasses.dataclass(frozen=True)
class EagleTrainee:
  """An EAGLE draft for a target, as `Trainee` of types.py.

  Attributes:
    config: the draft.
    depth: steps of the training-time test (version 3), and depths judged.
    objective: of each step's law. Where the target's likeliest token is not in
      the draft vocabulary nothing is learnt.
    decay: weight of step s is decay^s; every step is divided by the positions
      of step 0. Version 3.
    noise: half the width of the uniform noise on the features. Version 1.
    token_weight: of the objective, beside 1 of the features'. Version 1, which
      is trained on step 0 alone.
    remat: compute a step again for its gradient: a quarter slower, and the
      logits of one step are held in place of `depth` of them.
  """

  config: EagleConfig
  depth: int = 7
  objective: Loss = Loss("forward_kl")
  decay: float = 0.8
  noise: float = 0.1
  token_weight: float = 0.1
  remat: bool = False

  def __post_init__(self):
    """Refuses a depth below 1, and numbers that are no weights."""
    if self.depth < 1:
      raise ValueError(f"depth must be at least 1, got {self.depth}")
    for name in ("decay", "noise", "token_weight"):
      if not 0 <= getattr(self, name) < float("inf"):
        raise ValueError(f"{name} must be 0 or more, got {getattr(self, name)}")

  @property
  def taps(self) -> tuple[str, ...]:
    return self.config.taps

  def init(self, key: Key[Array, ""], frozen: Frozen) -> PyTree:
    """Random, but for a head of its own: it starts as the target's.

    Raises:
      ValueError: sizes that are not the target's.
    """
    self._check(frozen)
    net = EagleHead(self.config).init(key)
    if self.config.shares_head:
      return net
    rows = vocabulary_rows(frozen.target, frozen.token_ids)
    rows = jnp.array(rows, net["head"]["kernel"].dtype, copy=True)
    return net | {"head": {"kernel": rows}}

  def calibrated(self, params: PyTree, batch: Batch) -> PyTree:
    """Weights whose `fc_norm` gives each channel of a feature the size 1.

    A decoder's stream has a few channels that are thirty times the median one
    (attention sinks live there), and a step of Adam moves every weight alike:
    without this `fc` follows them and nothing else for hundreds of steps.
    """
    if not self.config.fc_norm:
      return params
    scales = {
      f"fc_norm_{i}": {"scale": _unit_scale(batch.features[name])}
      for i, name in enumerate(self.taps)
    }
    return params | scales

  def loss(
    self, params: PyTree, frozen: Frozen, batch: Batch, key: Key[Array, ""]
  ) -> dict[str, Sum]:
    """See `Trainee.loss`; "loss_per_depth" too, or the parts of version 1."""
    shared = self._share(params, frozen)
    if self.config.version == 1:
      return self._first_loss(shared, batch, draft_ids_of(frozen), key)
    target = _Ahead(batch, self.depth, draft_ids_of(frozen))

    def read(step, hidden):
      logits = EagleHead(self.config).logits(shared, hidden)
      return target.loss(self.objective, logits, step)

    each = self._unroll(shared, batch, self.depth, read)
    weights = self.decay ** jnp.arange(self.depth)
    total = (weights * each.total).sum()
    return {"loss": Sum(total, each.count[0]), "loss_per_depth": each}

  def acceptance(
    self,
    params: PyTree,
    frozen: Frozen,
    batch: Batch,
    temperature: Float[Array, ""],
  ) -> Sum:
    """See `Trainee.acceptance`; depth d is the law of node d."""
    shared = self._share(params, frozen)
    target = _Ahead(batch, self.depth, draft_ids_of(frozen))

    def read(step, hidden):
      logits = EagleHead(self.config).logits(shared, hidden)
      kept = losses.acceptance(
        logits, target.teacher(step), temperature, target.draft_ids
      )
      return losses.masked_sum(kept, target.mask(step))

    return self._unroll(shared, batch, self.depth, read)

  def drafter(self, num_speculative_tokens: int) -> Eagle:
    return Eagle(self.config, num_speculative_tokens)

  def draft_params(self, params: PyTree, frozen: Frozen) -> EagleParams:
    """See `Trainee.draft_params`; what was trained, in the layer's dtype."""
    dtype = self.config.layer.dtype
    net = jax.tree.map(lambda x: x.astype(dtype), params)
    return self._share(net, frozen)

  def _unroll(self, params: EagleParams, batch: Batch, depth: int, read):
    inputs = (self.config, params, batch.tokens, batch.features)
    return unroll(*inputs, depth, read, remat=self.remat)

  def _first_loss(self, params: EagleParams, batch: Batch, draft_ids, key):
    """Version 1: the next feature, and the law that the target's head reads."""
    name = self.config.taps[0]
    feature = batch.features[name]
    noise = jax.random.uniform(key, feature.shape, feature.dtype, -1.0, 1.0)
    noisy = {name: feature + self.noise * noise}
    batch = dataclasses.replace(batch, features=noisy)
    target = _Ahead(batch, 1, draft_ids)
    wanted = jnp.pad(feature[:, 1:], ((0, 0), (0, 1), (0, 0)))

    def read(step, hidden):
      error = losses.feature_regression(hidden, wanted)
      logits = EagleHead(self.config).logits(params, hidden)
      law = target.loss(self.objective, logits, step)
      return losses.masked_sum(error, target.mask(step)), law

    feature_loss, law = jax.tree.map(
      lambda x: x[0], self._unroll(params, batch, 1, read)
    )
    total = feature_loss.total + self.token_weight * law.total
    return {
      "loss": Sum(total, feature_loss.count),
      "feature_loss": feature_loss,
      "token_loss": law,
    }

  def _share(self, net: PyTree, frozen: Frozen) -> EagleParams:
    head = None
    if self.config.shares_head:
      head = vocabulary_rows(frozen.target, frozen.token_ids)
    embedding = frozen.target["embed"]["embedding"]
    return EagleParams(net, embedding, head, frozen.token_ids)

  def _check(self, frozen: Frozen) -> None:
    c, ids = self.config, frozen.token_ids
    wanted = (c.layer.vocab_size, c.layer.hidden_size)
    got = frozen.target["embed"]["embedding"].shape
    if got != wanted:
      raise ValueError(f"this EAGLE is for embeddings {wanted}, not {got}")
    if (None if ids is None else len(ids)) != c.draft_vocab_size:
      raise ValueError(
        f"a draft vocabulary of {c.draft_vocab_size} needs as many token ids,"
        f" got {None if ids is None else len(ids)}"
      )


@jax.jit
def _unit_scale(feature: Float[Array, "B L F"]) -> Float[Array, "F"]:
  """1 over the size of each channel, once a token's size is divided out.

  Padding is all zero. A channel that hardly varies keeps its place.
  """
  here = (feature != 0).any(-1, keepdims=True)
  size = jnp.sqrt(jnp.square(feature).mean(-1, keepdims=True))
  ratio = jnp.square(feature / jnp.where(here, size, 1.0))
  mean = ratio.sum((0, 1)) / jnp.maximum(here.sum(), 1)
  return 1.0 / jnp.sqrt(jnp.maximum(mean, 0.01))


class _Ahead:
  """What each step is to say: teacher, tokens and mask moved together.

  Step s reads entry i + 1 + s at position i; past the end nothing is valid.
  """

  def __init__(self, batch: Batch, depth: int, draft_ids):
    self._size = batch.tokens.shape[1]
    self.draft_ids = draft_ids

    def longer(x):
      return jnp.pad(x, ((0, 0), (0, depth + 1)) + ((0, 0),) * (x.ndim - 2))

    self._mask, self._tokens = longer(batch.mask), longer(batch.tokens)
    leaves, self._form = jax.tree.flatten(batch.teacher)
    self._leaves = [longer(x) for x in leaves]

  def _at(self, x: Array, step: Int[Array, ""]) -> Array:
    return lax.dynamic_slice_in_dim(x, step + 1, self._size, 1)

  def mask(self, step: Int[Array, ""]) -> Bool[Array, "B L"]:
    """Positions whose law is part of an answer."""
    return self._at(self._mask, step)

  def teacher(self, step: Int[Array, ""]) -> Teacher:
    """The target's laws that this step is to match."""
    leaves = [self._at(x, step) for x in self._leaves]
    return jax.tree.unflatten(self._form, leaves)

  def loss(
    self, loss: Loss, logits: Float[Array, "B L Vq"], step: Int[Array, ""]
  ) -> Sum:
    """The loss where the target's likeliest token can be said."""
    teacher, mask = self.teacher(step), self.mask(step)
    if self.draft_ids is not None:
      mask = mask & (self.draft_ids[teacher.ids[..., 0]] >= 0)
    tokens = self._at(self._tokens, step + 1)  # what came next
    return loss(logits, teacher, tokens, mask, self.draft_ids)
