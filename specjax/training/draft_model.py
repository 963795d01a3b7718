"""A separate draft model: fresh, or cut wide and shallow from its target.

A cut keeps the target's width: some of its layers, its final norm, its frozen
embedding, and of its head the rows of the tokens that the draft can say. So a
fresh draft of the width may begin, too.
"""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from specjax import passes
from specjax.drafters import DraftModel
from specjax.models.config import DecoderConfig
from specjax.models.cut import Shared
from specjax.models.decoder import Transformer, logical_axes
from specjax.models.heads import vocabulary_rows
from specjax.models.linear import linear
from specjax.models.reduced import Reduced
from specjax.training import losses
from specjax.training.answers_only import over_answers
from specjax.training.divergences import lk_weight
from specjax.training.draft_sizes import check_cut
from specjax.training.losses import Loss
from specjax.training.teacher import draft_ids_of
from specjax.training.types import Batch, Frozen, Sum, Teacher
from specjax.types import Slots


@dataclasses.dataclass(frozen=True)
class DraftTrainee:
  """Trains a decoder to draft; the `Trainee` of training/types.py.

  For a separate model every depth reads its own text, so that by teacher
  forcing all depths have one law: `depth` is 1.

  Attributes:
    config: of the draft; its head_size is the draft vocabulary, None is the
      target's. See `draft_sizes`.
    target: of the target.
    objective: what is minimised.
    layers: of the target, copied in this order; None draws new ones.
    share_embedding: read tokens with the target's embedding, which stays as it
      is; needs the target's width.
    train_head: a head of its own, that begins as the target's rows where the
      widths agree. Else those rows as they are.
    share_layers: the first so many of `layers` stay the target's, neither
      trained nor stored; they must be its first ones.
    feature_weight: of the regression of what the target's head reads, as
      EAGLE-1 has it, beside the objective; at the target's width.
    chunk: positions of each text whose logits are made at once.

  Raises:
    ValueError: what does not fit together.
  """

  config: DecoderConfig
  target: DecoderConfig
  objective: Loss = Loss("forward_kl")
  layers: tuple[int, ...] | None = None
  share_embedding: bool = True
  train_head: bool = True
  share_layers: int = 0
  feature_weight: float = 0.0
  chunk: int = 64

  depth = 1

  @property
  def taps(self) -> tuple[str, ...]:
    return ("hidden",) if self.feature_weight else ()

  def __post_init__(self):
    own, target = self.config, self.target
    if own.vocab_size != target.vocab_size:
      raise ValueError(
        f"a draft that reads {own.vocab_size} tokens does not fit a target of"
        f" {target.vocab_size}"
      )
    if own.hidden_size != target.hidden_size:
      if self.share_embedding or not self.train_head:
        raise ValueError(
          f"a draft of width {own.hidden_size} cannot share the embedding or"
          f" the head of a target of width {target.hidden_size}: set"
          " share_embedding=False and train_head=True"
        )
    if self.layers is not None:
      check_cut(own, target, self.layers)
    self._check_shared()
    if not 0 <= self.feature_weight < float("inf"):
      raise ValueError(
        f"feature_weight must be 0 or more, got {self.feature_weight}"
      )
    if self.feature_weight and own.hidden_size != target.hidden_size:
      raise ValueError("feature_weight needs a draft of the target's width")
    if self.chunk < 1:
      raise ValueError(f"chunk must be at least 1, got {self.chunk}")

  def _check_shared(self) -> None:
    number = self.share_layers
    if number == 0:
      return
    if not self.share_embedding or not 0 < number < self.config.num_layers:
      raise ValueError(
        f"share_layers={number} needs share_embedding and a layer to train"
      )
    if (self.layers or ())[:number] != tuple(range(number)):
      raise ValueError(
        f"share_layers={number} needs layers that begin with 0 to {number - 1}"
      )

  @property
  def model(self) -> Transformer:
    """The draft as it runs; a trained head is never the embedding's."""
    tied = self.config.tie_embeddings
    if self.train_head and self.share_embedding:
      tied = False  # else training the head would train the target
    elif not self.train_head:
      tied = self.target.tie_embeddings and self.share_embedding
    return Transformer(dataclasses.replace(self.config, tie_embeddings=tied))

  def init(self, key: Key[Array, ""], frozen: Frozen) -> PyTree:
    """See `Trainee.init`. Arrays are new ones, none is the target's.

    Raises:
      ValueError: the draft vocabulary is not the config's.
    """
    ids, size = frozen.token_ids, self.config.head_size
    if (None if ids is None else ids.shape[0]) != size:
      found = "none" if ids is None else str(ids.shape[0])
      raise ValueError(f"a head of {size} tokens needs their ids, got {found}")
    params = self.model.init(key)
    if self.layers is not None:
      for place, layer in enumerate(self.layers):
        params[f"layers_{place}"] = frozen.target[f"layers_{layer}"]
      params["norm"] = frozen.target["norm"]
    if "head" in params and self.config.hidden_size == self.target.hidden_size:
      params["head"] = {
        "kernel": vocabulary_rows(frozen.target, frozen.token_ids)
      }
    shared = self.shared.names(self.model.config)
    own = {name: leaf for name, leaf in params.items() if name not in shared}
    return jax.tree.map(jnp.array, own)

  @property
  def shared(self) -> Shared:
    """What is the target's of the draft's weights."""
    return Shared(self.share_embedding, not self.train_head, self.share_layers)

  def axes(self) -> PyTree:
    """Logical axes of the trained weights, for a mesh."""
    config = self.model.config
    shared = self.shared.names(config)
    return {k: v for k, v in logical_axes(config).items() if k not in shared}

  def loss(
    self, params: PyTree, frozen: Frozen, batch: Batch, key: Key[Array, ""]
  ) -> dict[str, Sum]:
    """See `Trainee.loss`; "feature_loss" too, where it has a weight.

    `key` is not used.

    lk_lambda weighs by the acceptance over this batch, so it alone is not the
    same where a batch is split.
    """

    parts = _parts(self.objective)
    ids = draft_ids_of(frozen)

    def judge(logits, teacher: Teacher, following, mask):
      given = (logits, teacher, following, mask, ids)
      return {name: part(*given) for name, part in parts.items()}

    found, hidden = self._over_answers(judge, params, frozen, batch)
    if self.objective.name == "lk_lambda":
      kl, missed = found["kl"], found["missed"]
      weight = lk_weight(1 - missed.mean(), *self.objective.settings)
      total = weight * kl.total + (1 - weight) * missed.total
      found = {"loss": Sum(total, kl.count)}
    if not self.feature_weight:
      return found
    error = losses.feature_regression(hidden, batch.features["hidden"])
    feature, law = losses.masked_sum(error, batch.mask), found["loss"]
    total = law.total + self.feature_weight * feature.total
    return {
      "loss": Sum(total, law.count),
      "feature_loss": feature,
      "token_loss": law,
    }

  def acceptance(
    self,
    params: PyTree,
    frozen: Frozen,
    batch: Batch,
    temperature: Float[Array, ""],
  ) -> Sum:
    """See `Trainee.acceptance`."""

    ids = draft_ids_of(frozen)

    def judge(logits, teacher: Teacher, following, mask):
      kept = losses.acceptance(logits, teacher, temperature, ids)
      return losses.masked_sum(kept, mask)

    found, _ = self._over_answers(judge, params, frozen, batch)
    return Sum(found.total[None], found.count[None])

  def drafter(self, num_speculative_tokens: int) -> DraftModel:
    """See `Trainee.drafter`."""
    model = self.model
    if self.config.head_size is not None:
      model = Reduced(model, self.config.vocab_size)
    return DraftModel(model, num_speculative_tokens)

  def draft_params(self, params: PyTree, frozen: Frozen) -> PyTree:
    """See `Trainee.draft_params`; what was trained, in the config's dtype."""
    dtype = self.config.dtype
    params = jax.tree.map(lambda leaf: leaf.astype(dtype), params)
    whole = self._whole(params, frozen)
    if frozen.token_ids is None:
      return whole
    return {"model": whole, "token_ids": frozen.token_ids}

  def _whole(self, params: PyTree, frozen: Frozen) -> PyTree:
    """The draft's weights, what it shares with the target included."""
    ids = frozen.token_ids
    return self.shared.complete(params, frozen.target, self.model.config, ids)

  def _over_answers(self, judge: Callable, params, frozen, batch: Batch):
    whole = self._whole(params, frozen)
    dtype = params["norm"]["scale"].dtype
    whole = jax.tree.map(lambda leaf: leaf.astype(dtype), whole)
    hidden = self._hidden(whole, batch.tokens, str(dtype))
    head = whole["head"]["kernel"] if "head" in whole else None
    kernel = whole["embed"]["embedding"] if head is None else head
    found = over_answers(
      lambda x, *rest: judge(linear(x, kernel, jnp.float32), *rest),
      hidden,
      batch,
      self.chunk,
    )
    return found, hidden

  def _hidden(
    self, whole: PyTree, tokens: Int[Array, "B L"], dtype: str
  ) -> Float[Array, "B L d"]:
    """What the head reads, after every token of the texts."""
    model = Transformer(dataclasses.replace(self.model.config, dtype=dtype))
    index = jnp.arange(tokens.shape[1], dtype=jnp.int32)[None]
    places = jnp.broadcast_to(index, tokens.shape)
    slots = Slots(tokens, places, passes.causal(places))
    if "head" in whole:  # not run here; its slope comes from the answers
      whole = whole | {"head": jax.lax.stop_gradient(whole["head"])}
    none = jnp.zeros((1, 0), jnp.int32)
    cache = model.init_cache(tokens.shape[0], 0)
    run = model(whole, slots, cache, readout=none, taps=("hidden",))
    return run.taps["hidden"]


def _parts(objective: Loss) -> dict[str, Loss]:
  """What is summed over the positions; lk_lambda weighs two sums later."""
  if objective.name != "lk_lambda":
    return {"loss": objective}
  temperature = objective.temperature
  return {
    "kl": Loss("forward_kl", temperature=temperature),
    "missed": Loss("total_variation", temperature=temperature),
  }
