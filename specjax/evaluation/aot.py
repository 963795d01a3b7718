"""The generation loop compiled ahead of time for a machine that is not here."""

import dataclasses
import re
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from specjax import decoding, sampling, sharding
from specjax.models.decoder import Transformer, logical_axes
from specjax.passes import Engine
from specjax.types import Params

COLLECTIVES = (
  "all-gather",
  "all-reduce",
  "all-to-all",
  "collective-permute",
  "reduce-scatter",
)


@dataclasses.dataclass(frozen=True)
class Program:
  """What the compiler says of one program.

  Attributes:
    devices: of the mesh, data x model.
    compile_s: seconds.
    collectives: instructions of each kind in the program's text.
    host_transfers: sends, receives and outfeeds.
    cache_copies: copies of an array of a cache layer's shape.
    argument_bytes, temporary_bytes, code_bytes: on each device.
  """

  topology: str
  data: int
  model: int
  batch: int
  capacity: int
  compile_s: float
  collectives: dict[str, int]
  host_transfers: int
  cache_copies: int
  argument_bytes: int
  temporary_bytes: int
  code_bytes: int


def topology_devices(topology: str) -> Any:
  """Devices of a TPU topology such as "v4:2x2x1", described by libtpu.

  Raises:
    ValueError: libtpu is missing, or does not know the topology.
  """
  from jax.experimental import topologies

  try:
    described = topologies.get_topology_desc(topology, platform="tpu")
  except Exception as error:
    raise ValueError(
      f"no description of TPU topology {topology!r} (pip install"
      f" 'specjax[tpu]'; names look like v4:2x2x1, v5e:2x2): {error}"
    ) from error
  return list(np.asarray(described.devices).flat)


def compile_loop(
  engine: Engine,
  topology: str,
  *,
  batch: int,
  capacity: int,
  data: int,
  model: int,
  temperature: float = 0.0,
) -> Program:
  """Compiles `decoding.decode`, rows cut over data and weights over model.

  Nothing is allocated: the weights and the rows are shapes.

  Raises:
    ValueError: see `topology_devices` and `sharding.make_mesh`.
  """
  if not isinstance(engine.model, Transformer):
    raise ValueError("only a Transformer says how its weights are cut")
  mesh = sharding.make_mesh(data, model, topology_devices(topology))
  weights = engine.model.abstract_params()
  placed = sharding.tree_shardings(
    weights, logical_axes(engine.model.config), mesh
  )
  params = Params(jax.tree.map(_placed, weights, placed))
  rows = jax.eval_shape(
    lambda: _rows(engine, params, batch, capacity, temperature)
  )
  rows = jax.tree.map(_placed, rows, sharding.row_shardings(rows, mesh))
  number = _placed(
    jax.ShapeDtypeStruct((), jnp.int32), sharding.named_sharding(mesh, (), ())
  )
  lowered = decoding.decode.lower(engine, params, rows, number, number)
  start = time.perf_counter()
  compiled = lowered.compile()
  seconds = time.perf_counter() - start
  text: str = compiled.as_text() or ""
  memory: Any = compiled.memory_analysis()
  return Program(
    topology=topology,
    data=data,
    model=model,
    batch=batch,
    capacity=capacity,
    compile_s=seconds,
    collectives={
      name: len(re.findall(rf"= \S+ {name}(?:-start)?\(", text))
      for name in COLLECTIVES
    },
    host_transfers=len(re.findall(r" (?:send|recv|outfeed|infeed)\(", text)),
    cache_copies=count_copies(text, rows.cache.layers[0][0].shape),
    argument_bytes=memory.argument_size_in_bytes,
    temporary_bytes=memory.temp_size_in_bytes,
    code_bytes=memory.generated_code_size_in_bytes,
  )


def count_copies(program_text: str, shape: tuple[int, ...]) -> int:
  """Copy instructions whose result has all but the first of these sizes.

  The first axis is the rows', which a mesh may have cut.
  """
  tail = ",".join(str(n) for n in shape[1:])
  found = re.findall(
    rf"= \w+\[\d+,{tail}\]\S* (?:copy|copy-start)\(", program_text
  )
  return len(found)


def _placed(leaf, placement):
  return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=placement)


def _rows(engine, params, batch, capacity, temperature):
  full = jnp.full((batch,), capacity, jnp.int32)
  return decoding.init_rows(
    engine,
    params,
    jnp.zeros((batch, capacity), jnp.int32),
    full // 2,
    key=jax.random.split(jax.random.key(0), batch),
    sampling=sampling.make_sampling(batch, temperature=temperature),
    limit=full,
    max_draft=jnp.full((batch,), engine.drafter.max_depth, jnp.int32),
    max_rounds=capacity,
  )
