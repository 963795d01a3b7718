"""AdamW with a warm-up, a schedule, a clip and a mask of what is decayed."""

import dataclasses

import jax
import optax
from jaxtyping import PyTree

DECAYS = ("cosine", "constant")


@dataclasses.dataclass(frozen=True)
class Optimizer:
  """Settings of the update; `make` gives it for a number of steps.

  Decoupled weight decay (Loshchilov and Hutter 2019, arXiv 1711.05101) acts on
  matrices alone: norms and biases are left out.

  Attributes:
    learning_rate: the largest one.
    warmup_steps: of a linear rise from 0 to it.
    decay: what follows: "cosine" to `last_share` of it at the last step, or
      "constant", the rate as it stands.
    clip: largest global norm of the gradient.
  """

  learning_rate: float = 1e-3
  warmup_steps: int = 100
  decay: str = "cosine"
  last_share: float = 0.1
  weight_decay: float = 0.01
  b1: float = 0.9
  b2: float = 0.98
  eps: float = 1e-8
  clip: float = 1.0

  def __post_init__(self):
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
    return optax.chain(
      optax.clip_by_global_norm(self.clip),
      optax.adamw(
        self.schedule(steps),
        b1=self.b1,
        b2=self.b2,
        eps=self.eps,
        weight_decay=self.weight_decay,
        mask=decayed,
      ),
    )


def decayed(params: PyTree) -> PyTree:
  """Which weights are decayed: those with two axes or more."""
  return jax.tree.map(lambda leaf: leaf.ndim > 1, params)
