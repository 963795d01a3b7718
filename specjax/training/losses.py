"""What a draft is trained to make small, position by position.

Losses are pure and mask nothing: entry i belongs to the law after token i. Over
positions they are added by `Loss`, which a configuration names ("forward_kl",
"jsd:0.1", see `LOSSES`). A temperature T is both laws': p^(1/T) of the teacher
and softmax(logits / T); gradients are not scaled by T^2.

Axes: K named tokens, V target vocabulary, Vq draft vocabulary, F features.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import optax
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int

from specjax.training import divergences
from specjax.training.divergences import IMPOSSIBLE, lk_weight, lump
from specjax.training.teacher import at_temperature, log_sum, to_draft
from specjax.training.types import Sum, Teacher


def sft(
  logits: Float[Array, "*b Vq"], tokens: Int[Array, "*b"]
) -> Float[Array, "*b"]:
  """-log q(token), in nats: fine-tuning, or sequence-level distillation.

  Args:
    tokens: what comes next, in the draft's ids.
  """
  logits = logits.astype(jnp.float32)
  own = jnp.take_along_axis(logits, tokens[..., None], -1)[..., 0]
  possible = own > -jnp.inf
  log_q = jnp.where(possible, own, 0.0) - log_sum(logits)
  return -jnp.where(possible, log_q, IMPOSSIBLE)


def forward_kl(
  logits: Float[Array, "*b Vq"], teacher: Teacher
) -> Float[Array, "*b"]:
  """KL(p || q); see `divergences.forward_kl`."""
  return divergences.forward_kl(lump(logits, teacher))


def reverse_kl(
  logits: Float[Array, "*b Vq"], teacher: Teacher
) -> Float[Array, "*b"]:
  """KL(q || p); see `divergences.reverse_kl`."""
  return divergences.reverse_kl(lump(logits, teacher))


def jsd(
  logits: Float[Array, "*b Vq"], teacher: Teacher, beta: ArrayLike = 0.5
) -> Float[Array, "*b"]:
  """Generalised Jensen-Shannon divergence; see `divergences.jsd`."""
  return divergences.jsd(lump(logits, teacher), beta)


def total_variation(
  logits: Float[Array, "*b Vq"], teacher: Teacher
) -> Float[Array, "*b"]:
  """1 - sum min(p, q); see `divergences.total_variation`."""
  return divergences.total_variation(lump(logits, teacher))


def lk_alpha(
  logits: Float[Array, "*b Vq"], teacher: Teacher
) -> Float[Array, "*b"]:
  """-log sum min(p, q); see `divergences.lk_alpha`."""
  return divergences.lk_alpha(lump(logits, teacher))


def lk_lambda(
  logits: Float[Array, "*b Vq"], teacher: Teacher, weight: ArrayLike
) -> Float[Array, "*b"]:
  """w KL + (1 - w) (1 - acceptance); see `divergences.lk_lambda`."""
  return divergences.lk_lambda(lump(logits, teacher), weight)


def feature_regression(
  features: Float[Array, "*b F"], wanted: Float[Array, "*b F"]
) -> Float[Array, "*b"]:
  """Smooth L1 of the target's next features, its mean over them.

  x^2 / 2 below 1, |x| - 1/2 above. EAGLE (Li et al. 2024, arXiv 2401.15077,
  eagle/train/main.py) adds it at weight 1 to 0.1 of the forward KL of the head.
  """
  error = optax.huber_loss(
    features.astype(jnp.float32), wanted.astype(jnp.float32), delta=1.0
  )
  return error.mean(-1)


def acceptance(
  logits: Float[Array, "*b Vq"],
  teacher: Teacher,
  temperature: ArrayLike,
  draft_ids: Int[Array, "V"] | None = None,
) -> Float[Array, "*b"]:
  """Sum min(p, q) over the named tokens: a lower bound where there is a tail.

  Args:
    teacher: at temperature 1, in the target's ids, its likeliest token first.
    temperature: of both laws; 0 says whether the likeliest tokens agree.
    draft_ids: of a reduced vocabulary, as `teacher.inverse_ids` gives them.
  """
  temperature = jnp.asarray(temperature, jnp.float32)
  safe = jnp.where(temperature > 0, temperature, 1.0)
  warm = _at(teacher, safe, logits.shape[-1], draft_ids)
  laws = lump(logits / safe, warm)
  kept = jnp.exp(jnp.minimum(laws.log_p, laws.log_q))[..., :-1].sum(-1)
  agrees = (logits.argmax(-1) == warm.ids[..., 0]) & (
    warm.log_probs[..., 0] > -jnp.inf
  )
  return jnp.where(temperature > 0, kept, agrees.astype(jnp.float32))


def masked_sum(values: Float[Array, "*b"], mask: Bool[Array, "*b"]) -> Sum:
  """The values that count, and how many they are.

  The others add exactly 0, and no gradient reaches them, whatever they are.
  """
  total = jnp.where(mask, values, 0.0).sum()
  return Sum(total, mask.sum().astype(jnp.float32))


@dataclasses.dataclass(frozen=True)
class Named:
  """An entry of `LOSSES`.

  Attributes:
    function: of the laws and the settings; None reads tokens, not the teacher.
    settings: names and defaults of what may follow the name.
  """

  function: Callable[..., Array] | None
  settings: Mapping[str, float] = dataclasses.field(default_factory=dict)


LOSSES: dict[str, Named] = {
  "sft": Named(None),
  "forward_kl": Named(divergences.forward_kl),
  "reverse_kl": Named(divergences.reverse_kl),
  "jsd": Named(divergences.jsd, {"beta": 0.5}),
  "total_variation": Named(divergences.total_variation),
  "lk_alpha": Named(divergences.lk_alpha),
  # The defaults of SpecForge, core/lk_loss.py.
  "lk_lambda": Named(divergences.lk_lambda, {"kl_scale": 1.0, "kl_decay": 1.0}),
}


@dataclasses.dataclass(frozen=True)
class Loss:
  """A loss by its name, with its settings: hashable, so static.

  Attributes:
    name: a key of `LOSSES`.
    settings: in the order of `LOSSES`.
    temperature: T > 0 of both laws.
  """

  name: str
  settings: tuple[float, ...] = ()
  temperature: float = 1.0

  def __post_init__(self):
    """Refuses what `parse` refuses."""
    if self.name not in LOSSES:
      known = ", ".join(LOSSES)
      raise ValueError(f"unknown loss {self.name!r}; known: {known}")
    names = [*LOSSES[self.name].settings]
    if len(self.settings) != len(names):
      wanted = ", ".join(names) or "no settings"
      raise ValueError(f"{self.name} takes {wanted}, got {self.settings}")
    for name, value in zip(names, self.settings, strict=True):
      _check(name, value)
    if not self.temperature > 0:
      raise ValueError(
        f"a loss needs a temperature above 0, got {self.temperature}"
      )

  def __call__(
    self,
    logits: Float[Array, "*b Vq"],
    teacher: Teacher,
    tokens: Int[Array, "*b"],
    mask: Bool[Array, "*b"],
    draft_ids: Int[Array, "V"] | None = None,
    mean_acceptance: Float[Array, ""] | None = None,
  ) -> Sum:
    """The loss over the positions of the mask, in nats or as a probability.

    Positions outside the mask add exactly 0 to value and gradient, also where
    their logits are not finite. Parts of a batch add up to the whole; for
    lk_lambda only where `mean_acceptance` is given.

    Args:
      logits: the draft's, not yet divided by the temperature.
      teacher: at temperature 1, in the target's ids.
      tokens: what came next, in the target's ids; only sft reads them, and
        does not count those that the draft cannot say.
      draft_ids: of a reduced vocabulary, as `teacher.inverse_ids` gives them.
      mean_acceptance: a of lk_lambda's weight; None is the mean over these
        positions.
    """
    if self.name == "sft" and draft_ids is not None:
      tokens = draft_ids[tokens]
      mask = mask & (tokens >= 0)
    logits = jnp.where(mask[..., None], logits, 0.0) / self.temperature
    if self.name == "sft":
      return masked_sum(sft(logits, jnp.where(mask, tokens, 0)), mask)
    warm = _at(teacher, self.temperature, logits.shape[-1], draft_ids)
    laws = lump(logits, warm)
    settings: tuple[Any, ...] = self.settings
    if self.name == "lk_lambda":
      if mean_acceptance is None:
        refused = masked_sum(divergences.total_variation(laws), mask)
        mean_acceptance = 1 - refused.mean()
      settings = (lk_weight(mean_acceptance, *settings),)
    function = LOSSES[self.name].function
    assert function is not None
    return masked_sum(function(laws, *settings), mask)


def parse(text: str, temperature: float = 1.0) -> Loss:
  """The loss that a configuration names: "name" or "name:setting,setting".

  Settings that are left out keep their defaults: "jsd" is "jsd:0.5".

  Raises:
    ValueError: an unknown name (the message lists them), a setting that is no
      number or out of range, a temperature of 0 or less.
  """
  name, _, given = text.partition(":")
  if name not in LOSSES:
    raise ValueError(f"unknown loss {name!r}; known: {', '.join(LOSSES)}")
  defaults = [*LOSSES[name].settings.values()]
  try:
    values = [float(value) for value in given.split(",")] if given else []
  except ValueError:
    raise ValueError(f"settings in {text!r} must be numbers") from None
  settings = (*values, *defaults[len(values) :])
  return Loss(name, settings, temperature)


def _check(name: str, value: float) -> None:
  if name == "beta" and not 0 < value < 1:
    raise ValueError(
      f"beta must be inside (0, 1), got {value}; the loss is 0 at the ends:"
      " use forward_kl or reverse_kl"
    )
  if name == "kl_scale" and not 0 <= value <= 1:
    raise ValueError(f"kl_scale must be in [0, 1], got {value}")
  if name == "kl_decay" and not 0 <= value < float("inf"):
    raise ValueError(f"kl_decay must be 0 or more, got {value}")


def _at(
  teacher: Teacher,
  temperature: ArrayLike,
  draft_size: int,
  draft_ids: Int[Array, "V"] | None,
) -> Teacher:
  """At a temperature, then in the draft's ids, if they are others."""
  size = draft_size if draft_ids is None else len(draft_ids)
  warm = at_temperature(teacher, temperature, size)
  return warm if draft_ids is None else to_draft(warm, draft_ids)
