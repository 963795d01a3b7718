"""One update of the weights: gradients, accumulated and sharded, then AdamW."""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Key, PyTree

from specjax import sharding
from specjax.training.optimizer import Optimizer
from specjax.training.types import Batch, Frozen, Sum, Trainee


class TrainState(NamedTuple):
  """What an update changes; a plain tuple, so that shardings fit in too.

  Attributes:
    params: the weights in float32, whatever they are multiplied in.
    optimizer: optax's state.
    step: updates so far, int32.
    fault: the first update whose loss or gradient was not finite, from 1; 0
      where there was none. Kept on the device, so that nobody waits for it.
  """

  params: PyTree
  optimizer: PyTree
  step: Any
  fault: Any


@dataclasses.dataclass(frozen=True)
class Update:
  """A step of training as a pure function.

  Attributes:
    steps: of the whole training, which the schedule wants to know.
    micro_batches: parts in which a batch is differentiated, one after another.
    dtype: of products: "float32" or "bfloat16"; the weights stay float32.
  """

  trainee: Trainee
  optimizer: Optimizer
  steps: int
  micro_batches: int = 1
  dtype: str = "float32"

  def init(self, params: PyTree) -> TrainState:
    """The state before the first update."""
    wide = cast(params, "float32")
    state = self.optimizer.make(self.steps).init(wide)
    # Two buffers: each is given up to the next state.
    step, fault = (jnp.zeros((), jnp.int32) for _ in range(2))
    return TrainState(wide, state, step, fault)

  def __call__(
    self, state: TrainState, frozen: Frozen, batch: Batch, key: Key[Array, ""]
  ) -> tuple[TrainState, dict[str, Sum]]:
    """Differentiates sum(loss) / count over the *whole* batch.

    Args:
      key: of the training; the step is folded in.

    Returns:
      (the next state, the trainee's figures and `gradient_norm`).
    """
    key = jax.random.fold_in(key, state.step)
    slope, figures = self._differentiate(state.params, frozen, batch, key)
    count = jnp.maximum(figures["loss"].count, 1)
    slope = jax.tree.map(lambda leaf: leaf / count, slope)
    norm = optax.tree.norm(slope)
    change, optimizer = self.optimizer.make(self.steps).update(
      slope, state.optimizer, state.params
    )
    step = state.step + 1
    sound = jnp.isfinite(figures["loss"].total) & jnp.isfinite(norm)
    fault = jnp.where((state.fault == 0) & ~sound, step, state.fault)
    params = optax.apply_updates(state.params, change)
    figures = figures | {"gradient_norm": Sum(norm, jnp.ones(()))}
    return TrainState(params, optimizer, step, fault), figures

  def _differentiate(self, params, frozen, batch, key):
    """(gradient of the summed loss, the figures) of all parts of a batch."""

    def total(params, part, key):
      figures = self.trainee.loss(cast(params, self.dtype), frozen, part, key)
      return figures["loss"].total, figures

    slope_of = jax.grad(total, has_aux=True)
    if self.micro_batches == 1:
      return slope_of(params, batch, key)
    # Leaves: a typed field takes no stack of parts.
    leaves, form = jax.tree.flatten(batch)

    def add(slope, given):
      leaves, key = given
      part = jax.tree.unflatten(form, leaves)
      more, figures = slope_of(params, part, key)
      return jax.tree.map(jnp.add, slope, more), figures

    zero = jax.tree.map(jnp.zeros_like, params)
    parts = [self._split(leaf) for leaf in leaves]
    keys = jax.random.split(key, self.micro_batches)
    slope, figures = jax.lax.scan(add, zero, (parts, keys))
    return slope, jax.tree.map(lambda leaf: leaf.sum(0), figures)

  def _split(self, leaf):
    """[B ...] -> [M B/M ...]; part m has rows m, m + M, ...

    So each part holds rows of every device that B is cut over.
    """
    size = leaf.shape[0] // self.micro_batches
    apart = leaf.reshape(size, self.micro_batches, *leaf.shape[1:])
    return apart.swapaxes(0, 1)


def cast(tree: PyTree, dtype: str) -> PyTree:
  """The same with all floating-point leaves in `dtype`."""

  def one(leaf):
    floating = jnp.issubdtype(leaf.dtype, jnp.floating)
    return leaf.astype(dtype) if floating else leaf

  return jax.tree.map(one, tree)


def state_shardings(
  update: Update, state: TrainState, axes: PyTree | None, mesh: Mesh
) -> TrainState:
  """Where the state lies: moments where their weights do, the rest everywhere.

  Args:
    axes: logical axes of the weights, a tree like them; None replicates.
  """
  everywhere = NamedSharding(mesh, PartitionSpec())
  if axes is None:
    return jax.tree.map(lambda leaf: everywhere, state)
  places = sharding.tree_shardings(state.params, axes, mesh)

  def absent(leaf):  # a weight that this part of the optimizer does not move
    return isinstance(leaf, optax.MaskedNode)

  optimizer = optax.tree.map_params(
    update.optimizer.make(update.steps).init,
    lambda leaf, place: leaf if absent(leaf) else place,
    state.optimizer,
    places,
    transform_non_params=lambda leaf: everywhere,
    is_leaf=absent,
  )
  return TrainState(places, optimizer, everywhere, everywhere)


def put_batch(batch: Batch, micro_batches: int, mesh: Mesh | None) -> Batch:
  """The batch on the device, or its rows cut over the mesh's data axis.

  Raises:
    ValueError: the rows do not divide.
  """
  rows = batch.tokens.shape[0]
  parts = micro_batches * (1 if mesh is None else mesh.shape[sharding.DATA])
  if rows % parts:
    cut = "" if mesh is None else f" over {mesh.shape[sharding.DATA]} devices"
    raise ValueError(
      f"a batch of {rows} texts does not divide into {micro_batches}"
      f" micro-batches{cut}"
    )
  return batch if mesh is None else sharding.shard_rows(batch, mesh)


def put_frozen(frozen: Frozen, mesh: Mesh | None) -> Frozen:
  """The same on every device of the mesh, but for what lies on it already."""
  if mesh is None:
    return frozen
  everywhere = NamedSharding(mesh, PartitionSpec())
  devices = set(mesh.devices.flat)

  def put(leaf):
    there = getattr(leaf, "sharding", None)
    on_mesh = there is not None and there.device_set == devices
    return leaf if on_mesh else jax.device_put(leaf, everywhere)

  return jax.tree.map(put, frozen)


def pairs(figures: dict[str, Sum]) -> dict[str, tuple[Array, Array]]:
  """(total, count) of each figure."""
  return {name: (one.total, one.count) for name, one in figures.items()}


def add_up(
  found: Sequence[dict[str, tuple[Array, Array]]],
) -> tuple[dict[str, Any], dict[str, Any]]:
  """(means, counts) of the pairs of several calls, added up in float64.

  Numbers, or lists of them where a figure has one a depth.
  """
  host = jax.device_get(list(found))
  means, counts = {}, {}
  for name in host[0]:
    each = [np.asarray(one[name], np.float64) for one in host]
    total, count = np.sum(each, axis=0)
    means[name] = (total / np.maximum(count, 1)).tolist()
    counts[name] = count.tolist()
  return means, counts
