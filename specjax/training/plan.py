"""How long a training is, how often it looks up, and when it stops."""

import dataclasses

from specjax.training.optimizer import Optimizer

_POSITIVE = (
  "steps",
  "micro_batches",
  "log_every",
  "evaluate_every",
  "patience",
  "keep",
)


@dataclasses.dataclass(frozen=True)
class Plan:
  """Sizes of a training.

  Attributes:
    steps: updates at most.
    micro_batches: parts that a batch is differentiated in; the update is the
      same for any number.
    dtype: of products, "float32" or "bfloat16"; weights stay float32.
    log_every: steps between two lines of the log.
    evaluate_every: steps between two evaluations, each followed by a
      checkpoint. There is one before the first step and one after the last.
    temperature: at which held-out acceptance is measured, that of serving.
    patience: evaluations without a better one before it stops; None is never.
    keep: checkpoints that stay, beside the best one.
    seed: of the first weights and of every step's key.
  """

  steps: int
  optimizer: Optimizer = Optimizer()
  micro_batches: int = 1
  dtype: str = "float32"
  log_every: int = 10
  evaluate_every: int = 100
  temperature: float = 1.0
  patience: int | None = None
  keep: int = 2
  seed: int = 0

  def __post_init__(self):
    for name in _POSITIVE:
      value = getattr(self, name)
      if value is not None and value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")
    if self.dtype not in ("float32", "bfloat16"):
      raise ValueError(f"dtype must be float32 or bfloat16, got {self.dtype!r}")
    if not 0 <= self.temperature < float("inf"):
      raise ValueError(f"temperature must be 0 or more, got {self.temperature}")
    if not 0 <= self.seed < 2**32:  # what a key tells apart
      raise ValueError(f"seed must be 0 to {2**32 - 1}, got {self.seed}")
    self.optimizer.schedule(self.steps)
