"""Trains any trainee; stops early on held-out acceptance; resumes bit by bit.

A training is a function of its plan, its batches and the weights it starts
from: batch and key of a step follow from the step's number, so one that was
killed goes on from its last checkpoint as if nothing had been.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import PyTree

from specjax.theory import positions
from specjax.training import logs
from specjax.training.checkpoints import Checkpoints
from specjax.training.course import Course, Trained
from specjax.training.plan import Plan
from specjax.training.types import Batch, Frozen, Trainee
from specjax.training.update import (
  Update,
  add_up,
  cast,
  pairs,
  put_batch,
  put_frozen,
  state_shardings,
)


class NotFiniteError(ValueError):
  """A loss or a gradient became NaN or infinite."""


class Trainer:
  """A training in a folder: `log.jsonl`, `checkpoints/` and two pictures."""

  def __init__(
    self,
    trainee: Trainee,
    frozen: Frozen,
    batches: Callable[[int], Batch],
    held_out: Sequence[Batch],
    plan: Plan,
    folder: Path,
    *,
    params: PyTree = None,
    axes: PyTree = None,
    mesh: Mesh | None = None,
    say: Callable[[str], None] = lambda text: None,
  ):
    """
    Args:
      batches: the batch of each step, from 0; the same for the same step.
      held_out: texts of prompts that no batch has.
      params: weights to start from; None is the trainee's own `init`, followed
        by `calibrated(params, the first batch)` where it has that.
      axes: logical axes of the weights, a tree like them, for the mesh.
      mesh: of `sharding.make_mesh`; its data axis cuts B, its model axis the
        weights. None is one device.
      say: takes a line of progress.

    Raises:
      ValueError: nothing is held out.
    """
    if not held_out:
      raise ValueError(
        "hold out some texts: training stops by acceptance there"
      )
    self._plan, self._say, self._mesh = plan, say, mesh
    self._batches, self._trainee = batches, trainee
    self._log = folder / logs.FILE
    self._folder = folder
    self._checkpoints = Checkpoints(folder / "checkpoints", plan.keep)
    self._frozen = put_frozen(frozen, mesh)
    self._held_out = [put_batch(batch, 1, mesh) for batch in held_out]
    key = jax.random.key(plan.seed)
    first, self._key, self._judge_key = jax.random.split(key, 3)
    self._update = Update(
      trainee, plan.optimizer, plan.steps, plan.micro_batches, plan.dtype
    )
    if params is None:
      params = trainee.init(first, frozen)
      calibrated = getattr(trainee, "calibrated", None)
      if calibrated is not None:
        params = calibrated(params, batches(0))
    # A copy: the buffers of a state are given up to the next one.
    state = jax.tree.map(jnp.copy, self._update.init(params))
    places = None
    if mesh is not None:
      places = state_shardings(self._update, state, axes, mesh)
      state = jax.device_put(state, places)
    self._state, self._places = state, places
    self._judge = jax.jit(self._judged)
    self._compiled: dict[Any, Any] = {}
    self._course = Course()

  def run(self) -> Trained:
    """Trains, or goes on where a kill left off, or reads what was finished.

    Raises:
      NotFiniteError: the loss or the gradient became NaN or infinite; the step
        is named.
      ValueError: a batch that does not divide.
      CheckpointError: the folder holds a training of other sizes.
    """
    self._folder.mkdir(parents=True, exist_ok=True)
    at = self._resume()
    pending: list[dict[str, Any]] = []
    fed, seconds = 0, 0.0
    while at < self._plan.steps and not self._course.stopped:
      start = time.perf_counter()
      parts = self._plan.micro_batches
      batch = put_batch(self._batches(at), parts, self._mesh)
      # Leaves: compiling ahead fills trees with what no typed field takes.
      leaves, form = jax.tree.flatten((self._frozen, batch))
      step, compile_s = self._program(leaves, form)
      self._state, figures = step(self._state, leaves, self._key)
      pending.append(figures)
      fed, at = fed + batch.tokens.size, at + 1
      judge = at % self._plan.evaluate_every == 0 or at == self._plan.steps
      line = judge or at % self._plan.log_every == 0
      entry = self._figures(at, pending) if line else {}
      seconds += time.perf_counter() - start - compile_s
      if line:
        entry |= {"seconds": seconds, "tokens_per_s": fed / seconds}
        self._progress(at, entry, len(pending))
        self._evaluate(at, entry) if judge else logs.append(self._log, entry)
        pending, fed, seconds = [], 0, 0.0
    return self._finish(at)

  def _resume(self) -> int:
    """The step of the last checkpoint, whose state and log are put back."""
    if not (steps := self._checkpoints.steps()):
      logs.cut(self._log, -1)
      self._evaluate(0, {})
      return 0
    at = steps[-1]
    like = (self._state, self._course)
    self._state, self._course = self._checkpoints.restore(at, like)
    logs.cut(self._log, at)
    self._say(f"going on from step {at}")
    return at

  def _program(self, leaves, form):
    """(the compiled step for batches of this shape, seconds to compile it)."""
    shapes = tuple(leaf.shape for leaf in leaves)
    if shapes in self._compiled:
      return self._compiled[shapes], 0.0

    def step(state, leaves, key):
      frozen, batch = jax.tree.unflatten(form, leaves)
      state, figures = self._update(state, frozen, batch, key)
      return state, pairs(figures)

    start = time.perf_counter()
    places = None if self._places is None else (self._places, None)
    program = jax.jit(step, donate_argnums=0, out_shardings=places)
    lowered = program.lower(self._state, leaves, self._key)
    self._compiled[shapes] = lowered.compile()
    return self._compiled[shapes], time.perf_counter() - start

  def _figures(self, at: int, pending) -> dict[str, Any]:
    """Means since the last line; waits for the device."""
    if fault := int(self._state.fault):
      raise NotFiniteError(
        f"the loss or its gradient is not finite at step {fault}: lower"
        " learning_rate, raise warmup_steps, or look at that step's batch"
      )
    means, counts = add_up(pending)
    self._course = self._course.learnt(counts["loss"])
    rate = self._plan.optimizer.schedule(self._plan.steps)(at - 1)
    return {
      "step": at,
      **means,
      "learning_rate": float(np.asarray(rate)),
      "positions": int(self._course.positions),
    }

  def _progress(self, at: int, entry: dict[str, Any], steps: int) -> None:
    left = (self._plan.steps - at) * entry["seconds"] / steps
    self._say(
      f"step {at}/{self._plan.steps}  loss {entry['loss']:.4f}"
      f"  {entry['tokens_per_s']:,.0f} tokens/s  {_clock(left)} left"
    )

  def _evaluate(self, at: int, entry: dict[str, Any]) -> None:
    """Judges the held-out texts, logs and saves."""
    start = time.perf_counter()
    temperature = jnp.asarray(self._plan.temperature, jnp.float32)
    found = [
      self._judge(
        self._state.params, self._frozen, batch, temperature, self._judge_key
      )
      for batch in self._held_out
    ]
    means, _ = add_up(found)
    rates = means["acceptance"]
    length = float(positions.expected_tokens(np.asarray(rates, np.float32)))
    self._course = self._course.judged(at, length, self._plan.patience)
    entry = {
      "step": at,
      **entry,
      **means,
      "acceptance_length": length,
      "evaluate_s": time.perf_counter() - start,
    }
    # In this order: a line without its checkpoint is cut off again.
    logs.append(self._log, entry)
    tree = (self._state, self._course)
    self._checkpoints.save(at, tree, int(self._course.best))
    shown = " ".join(f"{rate:.3f}" for rate in rates)
    self._say(
      f"step {at}: held-out acceptance at temperature"
      f" {self._plan.temperature:g}: {shown}"
      f" (best at step {self._course.best})"
    )

  def _judged(self, params, frozen, batch, temperature, key):
    params = cast(params, self._plan.dtype)
    rates = self._trainee.acceptance(params, frozen, batch, temperature)
    key = jax.random.fold_in(key, 0)  # the same in every call
    loss = self._trainee.loss(params, frozen, batch, key)["loss"]
    return pairs({"acceptance": rates, "held_out_loss": loss})

  def _finish(self, at: int) -> Trained:
    lines = logs.read(self._log)
    logs.draw(lines, self._plan.temperature, self._folder)
    best = int(self._course.best)
    state = self._state
    if best != at:
      like = (self._state, self._course)
      state, _ = self._checkpoints.restore(best, like)
    (rates,) = [
      line["acceptance"]
      for line in lines
      if line["step"] == best and "acceptance" in line
    ]
    return Trained(
      params=state.params,
      step=best,
      steps=at,
      positions=int(self._course.positions),
      acceptance=tuple(rates),
      acceptance_length=float(self._course.length),
      stopped_early=bool(self._course.stopped),
      seconds=sum((line.get("seconds", 0.0) for line in lines), 0.0),
    )


def _clock(seconds: float) -> str:
  minutes, seconds = divmod(round(seconds), 60)
  hours, minutes = divmod(minutes, 60)
  return f"{hours}:{minutes:02d}:{seconds:02d}"
