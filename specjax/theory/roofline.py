"""Seconds of a pass from its bytes and operations.

A pass takes the longer of its reads at the reached bandwidth and its arithmetic
at the reached rate, then what tensor parallelism exchanges, then a fixed part.
Reads: the weights once, and each row's cache once for all of its queries.
Arithmetic: 2 a parameter and token, and attention by context. Writes of the
cache and activations are left out.
"""

import dataclasses
from typing import NamedTuple

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Real

from specjax.theory.arrays import as_floats
from specjax.theory.devices import Device
from specjax.theory.shapes import ModelShape, OnceShape


@dataclasses.dataclass(frozen=True)
class Setup:
  """How a model is run.

  Attributes:
    weight_bits, cache_bits: 16, 8, 4, or a mean such as 4.5 where scales are
      stored too; arithmetic stays 16-bit.
    ways: of tensor parallelism, all in one replica.
    bandwidth_share, operations_share: of the peaks that programs reach.
    fixed_seconds: a pass, whatever its size.
    hop_seconds: of each step of a collective.
  """

  weight_bits: float | int = 16
  cache_bits: float | int = 16
  ways: int = 1
  bandwidth_share: float = 1.0
  operations_share: float = 1.0
  fixed_seconds: float = 0.0
  hop_seconds: float = 0.0


class Pass(NamedTuple):
  """One pass of one model, on each of its devices.

  `seconds` is max(memory, arithmetic) + exchange + the fixed part; `bytes` and
  `operations` are each device's, `exchanged` the bytes summed over them.
  """

  seconds: Float[Array, "..."]
  memory_seconds: Float[Array, "..."]
  arithmetic_seconds: Float[Array, "..."]
  exchange_seconds: Float[Array, "..."]
  bytes: Float[Array, "..."]
  operations: Float[Array, "..."]

  @property
  def idle_share(self) -> Float[Array, "..."]:
    """Of the pass in which the arithmetic units wait."""
    return 1 - self.arithmetic_seconds / self.seconds


def cache_bytes(model: ModelShape, setup: Setup = Setup()) -> float:
  """Of one token of context on each device.

  Key-value heads are shared out as far as they go, then repeated.
  """
  heads = -(-model.num_kv_heads // setup.ways) / model.num_kv_heads
  return model.cache_values * heads * setup.cache_bits / 8


def weight_bytes(parameters: int, setup: Setup = Setup()) -> float:
  """Of so many parameters on each device."""
  return parameters * setup.weight_bits / 8 / setup.ways


def model_pass(
  model: ModelShape,
  device: Device,
  setup: Setup,
  batch: Real[ArrayLike, "*#s"],
  context: Real[ArrayLike, "*#s"],
  queries: Real[ArrayLike, "*#s"] = 1,
) -> Pass:
  """Figures of one pass of `batch` rows, each of `queries` tokens.

  Two sums over the devices a layer, each of all activations at 16 bits, as a
  ring: 2 (w - 1) / w of them over a device's links, in 2 (w - 1) steps.

  Args:
    context: tokens of each row in the cache.
  """
  batch, context, queries = as_floats(batch, context, queries)
  ways = setup.ways
  weights = float(weight_bytes(model.parameters, setup))
  size = weights + batch * context * float(cache_bytes(model, setup))
  each = 2.0 * model.parameters + context * float(model.attention_operations)
  operations = batch * queries * each / ways
  exchange = jnp.zeros_like(operations)
  if ways > 1:
    if not device.link:
      raise ValueError(f"{ways} ways need a device with links to others")
    moved = 2.0 * model.hidden_size * batch * queries
    ring = 2 * (ways - 1) / ways * moved / device.link
    hops = 2 * (ways - 1) * setup.hop_seconds
    exchange = exchange + 2 * model.num_layers * (ring + hops)
  return _timed(device, setup, size, operations, exchange, setup.fixed_seconds)


def once_pass(
  shape: OnceShape,
  device: Device,
  setup: Setup,
  batch: Real[ArrayLike, "*#s"],
  num_speculative_tokens: Real[ArrayLike, "*#s"],
) -> Pass:
  """Figures of what runs once a draft, for `batch` rows.

  What heads exchange between devices is left out: they have no layers with
  sums of all activations. Zeros where nothing is drafted.
  """
  batch, gamma = as_floats(batch, num_speculative_tokens)
  drafts = jnp.where(gamma > 0, 1.0, 0.0).astype(gamma.dtype)
  read = drafts * (shape.once + shape.shared) + gamma * shape.each
  size = read * float(weight_bytes(1, setup)) + 0 * batch
  used = drafts * shape.once + gamma * (shape.each + shape.shared)
  operations = 2.0 * batch * used / setup.ways
  fixed = drafts * setup.fixed_seconds
  nothing = jnp.zeros_like(operations)
  return _timed(device, setup, size, operations, nothing, fixed)


def _timed(
  device: Device,
  setup: Setup,
  size: Array,
  operations: Array,
  exchange: Array,
  fixed: Array | float,
) -> Pass:
  """Of a pass that reads so many bytes and does so many operations."""
  memory = size / (device.bandwidth * setup.bandwidth_share)
  arithmetic = operations / (device.operations * setup.operations_share)
  seconds = jnp.maximum(memory, arithmetic) + exchange + fixed
  return Pass(seconds, memory, arithmetic, exchange, size, operations)
