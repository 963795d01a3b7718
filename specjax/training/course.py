"""How far a training has come, and what came out of it."""

import dataclasses
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import PyTree


class Course(NamedTuple):
  """What the host knows of a training; numpy, saved in every checkpoint.

  Attributes:
    length: the best acceptance length so far; see `Trained`.
    best: the step that had it.
    stale: evaluations since then.
    positions: those that were learnt, steps added up.
    stopped: 1 where patience ended it.
  """

  length: Any = np.asarray(-1, np.float64)
  best: Any = np.asarray(0, np.int64)
  stale: Any = np.asarray(0, np.int64)
  positions: Any = np.asarray(0, np.int64)
  stopped: Any = np.asarray(0, np.int64)

  def learnt(self, count: float) -> "Course":
    """With more positions learnt."""
    return self._replace(positions=np.asarray(self.positions + int(count)))

  def judged(self, at: int, length: float, patience: int | None) -> "Course":
    """After an evaluation."""
    better = length > self.length
    stale = 0 if better else int(self.stale) + 1
    return self._replace(
      length=np.asarray(length if better else self.length, np.float64),
      best=np.asarray(at if better else self.best, np.int64),
      stale=np.asarray(stale, np.int64),
      stopped=np.asarray(patience is not None and stale >= patience, np.int64),
    )


@dataclasses.dataclass(frozen=True)
class Trained:
  """What came out.

  Attributes:
    params: the weights of the best evaluation, float32.
    step: at which it was.
    steps: that were run.
    positions: that were learnt in these steps.
    acceptance: held out, at each depth, by teacher forcing, of `params`.
    acceptance_length: tokens a round that these rates would give a chain of
      that depth (1 + a1 + a1 a2 + ...): what "best" means here.
    stopped_early: whether patience ended it.
    seconds: spent in steps, neither compiling nor evaluating.
  """

  params: PyTree
  step: int
  steps: int
  positions: int
  acceptance: tuple[float, ...]
  acceptance_length: float
  stopped_early: bool
  seconds: float
