"""AdamW or Muon, with a warm-up, a schedule, a clip and a mask of the decay."""

import dataclasses

import jax
import optax
import optax.contrib
from jaxtyping import PyTree

DECAYS = ("cosine", "constant")
METHODS = ("adamw", "muon")
_ADAM_SIZE = 0.2  # root mean square of AdamW's step over its rate


@dataclasses.dataclass(frozen=True)
class Optimizer:
  """Settings of the update; `make` gives it for a number of steps.

  Decoupled weight decay (Loshchilov and Hutter 2019, arXiv 1711.05101) acts on
  matrices alone: norms and biases are left out.

  Attributes:
    method: "adamw", or "muon": a matrix moves along its momentum with all
      singular values made equal, as far as AdamW would move it; other weights
      as with AdamW (Jordan et al. 2024; Liu et al. 2025, arXiv 2502.16982,
      section 2.2, for the size of a step). Dearer a step by some thousand
      multiplications a weight, whatever the batch.
    learning_rate: the largest one.
    warmup_steps: of a linear rise from 0 to it.
    decay: what follows: "cosine" to `last_share` of it at the last step, or
      "constant", the rate as it stands.
    clip: largest global norm of the gradient.
    momentum: of Muon, in the place of b1.
  """

  method: str = "adamw"
  learning_rate: float = 1e-3
  warmup_steps: int = 100
  decay: str = "cosine"
  last_share: float = 0.1
  weight_decay: float = 0.01
  b1: float = 0.9
  b2: float = 0.98
  eps: float = 1e-8
  clip: float = 1.0
  momentum: float = 0.95

  def __post_init__(self):
    if self.method not in METHODS:
      raise ValueError(f"method must be adamw or muon, got {self.method!r}")
    if self.decay not in DECAYS:
      raise ValueError(f"decay must be cosine or constant, got {self.decay!r}")
    if not 0 <= self.last_share <= 1:
      raise ValueError(f"last_share must be in [0, 1], got {self.last_share}")
    if self.warmup_steps < 0 or self.weight_decay < 0:
      raise ValueError("warmup_steps and weight_decay must be 0 or more")
    if not (self.learning_rate > 0 and self.clip > 0):
      raise ValueError("learning_rate and clip must be above 0")

  def schedule(self, steps: int) -> optax.Schedule:
    """Learning rate at each of `steps` updates, from 0.

    Raises:
      ValueError: the warm-up is not shorter than the training.
    """
    if self.warmup_steps >= steps:
      raise ValueError(
        f"warmup_steps ({self.warmup_steps}) must be below steps ({steps})"
      )
    rise = optax.linear_schedule(0.0, self.learning_rate, self.warmup_steps)
    if self.decay == "constant":
      rest = optax.constant_schedule(self.learning_rate)
    else:
      left = steps - self.warmup_steps
      rest = optax.cosine_decay_schedule(
        self.learning_rate, left, self.last_share
      )
    # The first update is no idle one: step i has the rate of i + 1.
    joined = optax.join_schedules([rise, rest], [self.warmup_steps])
    return lambda count: joined(count + 1)

  def make(self, steps: int) -> optax.GradientTransformation:
    """The update of a training of so many steps."""
    clip = optax.clip_by_global_norm(self.clip)
    rate, moments = self.schedule(steps), (self.b1, self.b2)
    if self.method == "adamw":
      return optax.chain(
        clip,
        optax.adamw(
          rate,
          *moments,
          eps=self.eps,
          weight_decay=self.weight_decay,
          mask=decayed,
        ),
      )
    return optax.chain(
      clip,
      optax.contrib.muon(
        rate,
        beta=self.momentum,
        eps=self.eps,
        weight_decay=self.weight_decay,
        adam_b1=self.b1,
        adam_b2=self.b2,
        consistent_rms=_ADAM_SIZE,
      ),
    )


def decayed(params: PyTree) -> PyTree:
  """Which weights are decayed: those with two axes or more."""
  return jax.tree.map(lambda leaf: leaf.ndim > 1, params)
