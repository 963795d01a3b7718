"""Meshes, logical axes and the start of many hosts.

Arrays name their axes logically ("heads", "mlp", ...) and `Rules` says which
axis of the mesh each is cut along. The mesh has two: "data" for rows, "model"
for weights. An axis that the mesh does not divide is replicated, with a
message. The sequence axis is never cut.
"""

import dataclasses
import functools
import logging
from collections.abc import Sequence

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jaxtyping import PyTree

DATA, MODEL = "data", "model"

Axes = Sequence[str | None]

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Rules:
  """Which mesh axis each logical axis is cut along; None is replicated."""

  batch: str | None = DATA
  vocab: str | None = MODEL
  heads: str | None = MODEL
  kv_heads: str | None = MODEL
  mlp: str | None = MODEL
  embed: str | None = None
  layers: str | None = None
  sequence: str | None = None

  def mesh_axis(self, name: str | None) -> str | None:
    """The mesh axis of a logical axis.

    Raises:
      ValueError: the name is none of the logical axes.
    """
    if name is None:
      return None
    known = [field.name for field in dataclasses.fields(self)]
    if name not in known:
      raise ValueError(
        f"unknown logical axis {name!r}: use None or one of {', '.join(known)}"
      )
    return getattr(self, name)


RULES = Rules()


def make_mesh(
  data: int = 1, model: int = 1, devices: Sequence[jax.Device] | None = None
) -> Mesh:
  """A mesh of data x model devices whose layout the compiler completes.

  Args:
    data: number of groups of rows.
    model: number of parts of the weights.
    devices: the devices, all of this program's by default. The first
      data * model of them are taken.

  Raises:
    ValueError: a size below 1, or fewer devices than the mesh needs.
  """
  devices = list(jax.devices() if devices is None else devices)
  if data < 1 or model < 1:
    raise ValueError(
      f"mesh sizes are at least 1, not data={data} model={model}"
    )
  if data * model > len(devices):
    raise ValueError(
      f"a {data} x {model} mesh needs {data * model} devices and there are "
      f"{len(devices)}: lower data or model"
    )
  chosen = devices[: data * model]
  automatic = (AxisType.Auto, AxisType.Auto)
  if _described(chosen):
    grid = np.asarray(chosen).reshape(data, model)
    return Mesh(grid, (DATA, MODEL), axis_types=automatic)
  return jax.make_mesh(
    (data, model), (DATA, MODEL), axis_types=automatic, devices=chosen
  )


def _described(devices) -> bool:
  """Whether these are cores of one chip apart, as libtpu describes a v4.

  `jax.make_mesh` orders chips only; such devices keep the order given.
  """
  return any(getattr(device, "core_on_chip", 0) for device in devices)


@functools.cache
def _replicated(name: str, size: int, mesh_axis: str, parts: int) -> None:
  _logger.warning(
    "axis %s of size %d is replicated: mesh axis %s cuts it in %d",
    name,
    size,
    mesh_axis,
    parts,
  )


def named_sharding(
  mesh: Mesh, axes: Axes, shape: Sequence[int], rules: Rules = RULES
) -> NamedSharding:
  """Sharding of one array.

  An axis that does not divide is replicated and logged, once for a name and
  size. Where two axes of one array map to one mesh axis, the first is cut.

  Args:
    mesh: a mesh of `make_mesh`.
    axes: a logical axis or None for each dimension.
    shape: the array's shape.
    rules: logical axis -> mesh axis.

  Raises:
    ValueError: axes and shape differ in length, or an axis is unknown.
  """
  if len(axes) != len(shape):
    raise ValueError(
      f"axes {tuple(axes)} do not fit shape {tuple(shape)}: name every "
      "dimension"
    )
  spec: list[str | None] = []
  for name, size in zip(axes, shape, strict=True):
    mesh_axis = rules.mesh_axis(name)
    if mesh_axis in spec:
      mesh_axis = None
    if name is not None and mesh_axis is not None:
      parts = mesh.shape[mesh_axis]
      if size % parts:
        _replicated(name, size, mesh_axis, parts)
        mesh_axis = None
    spec.append(mesh_axis)
  return NamedSharding(mesh, PartitionSpec(*spec))


def tree_shardings(
  tree: PyTree, axes: PyTree, mesh: Mesh, rules: Rules = RULES
) -> PyTree:
  """Shardings of a tree of arrays, or of shapes, for `jax.jit`.

  Args:
    tree: arrays or `jax.ShapeDtypeStruct`s.
    axes: the same tree with a tuple of logical axes (or a `PartitionSpec` of
      them) in place of each array.
    mesh: a mesh of `make_mesh`.
    rules: logical axis -> mesh axis.
  """
  return jax.tree.map(
    lambda leaf, names: named_sharding(mesh, tuple(names), leaf.shape, rules),
    tree,
    axes,
  )


def shard_tree(
  tree: PyTree, axes: PyTree, mesh: Mesh, rules: Rules = RULES
) -> PyTree:
  """Puts weights on the mesh; arguments as in `tree_shardings`."""
  return jax.device_put(tree, tree_shardings(tree, axes, mesh, rules))


def row_shardings(rows: PyTree, mesh: Mesh, rules: Rules = RULES) -> PyTree:
  """Shardings of state whose every leaf leads with B, typed keys included.

  Raises:
    ValueError: a leaf does not lead with the B of the others.
  """
  leaves, form = jax.tree.flatten(rows)
  return jax.tree.unflatten(form, _leaf_shardings(rows, leaves, mesh, rules))


def _leaf_shardings(rows, leaves, mesh, rules) -> list[NamedSharding]:
  batch = None
  for path, leaf in jax.tree_util.tree_leaves_with_path(rows):
    batch = leaf.shape[0] if batch is None and leaf.ndim else batch
    if not leaf.ndim or leaf.shape[0] != batch:
      raise ValueError(
        f"leaf {jax.tree_util.keystr(path)} of shape {leaf.shape} does not "
        f"lead with the {batch} rows: every leaf of the rows does"
      )
  return [
    named_sharding(
      mesh, ("batch",) + (None,) * (leaf.ndim - 1), leaf.shape, rules
    )
    for leaf in leaves
  ]


def shard_rows(rows: PyTree, mesh: Mesh, rules: Rules = RULES) -> PyTree:
  """Puts rows on the mesh, cut along B; see `row_shardings`."""
  # Leaf by leaf: a typed field takes arrays only, no shardings.
  leaves, form = jax.tree.flatten(rows)
  places = _leaf_shardings(rows, leaves, mesh, rules)
  return jax.tree.unflatten(form, jax.device_put(leaves, places))


def initialize_distributed(
  coordinator_address: str | None = None,
  num_processes: int | None = None,
  process_id: int | None = None,
) -> None:
  """Joins this process to the others; call it before anything else of jax.

  Args:
    coordinator_address: host:port of process 0. All three arguments or none:
      without them the cluster (TPU pod, Slurm, ...) is asked.
    num_processes: number of processes.
    process_id: this one, from 0.

  Raises:
    ValueError: some arguments without the others, or out of range; no cluster
      found; called twice or too late.
  """
  given = (coordinator_address, num_processes, process_id)
  if any(x is None for x in given) and any(x is not None for x in given):
    raise ValueError(
      "give coordinator_address, num_processes and process_id together, or none"
    )
  if num_processes is not None and process_id is not None:
    if not 0 <= process_id < num_processes:
      raise ValueError(
        f"process_id {process_id} is not in 0..{num_processes - 1}"
      )
  if jax.distributed.is_initialized():
    raise ValueError("this process has already joined: call this once")
  try:
    jax.distributed.initialize(coordinator_address, num_processes, process_id)
  except RuntimeError as error:
    raise ValueError(
      f"could not join the processes ({error}): call this before any other use "
      "of jax"
    ) from error
  except ValueError as error:
    raise ValueError(
      f"no cluster was found ({error}): give coordinator_address, "
      "num_processes and process_id"
    ) from error
