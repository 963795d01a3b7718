"""The machine at hand as a device, by measurement."""

import os
import statistics

import jax
import jax.numpy as jnp

from specjax.evaluation import timing
from specjax.theory.devices import Device

NAME = "here"
_REPEATS = 7
_GIB = 1 << 30


def on_cpu() -> bool:
  """Whether models run on a CPU here, and so in float32."""
  return jax.default_backend() == "cpu"


def weight_bits() -> int:
  """Bits of a weight and of a cached value, as models run here by default."""
  return 32 if on_cpu() else 16


def measure(num_bytes: int | None = None, size: int | None = None) -> Device:
  """Bandwidth of reads and rate of matrix products, medians in turns.

  One device of the default backend, in float32 on a CPU and bfloat16 elsewhere.
  Nothing is known of links to other devices.

  Args:
    num_bytes: that a read goes over; by default more than any cache holds.
    size: of the square matrices.
  """
  cpu = on_cpu()
  num_bytes = num_bytes or (None if cpu else 4 * _GIB)
  size = size or (2048 if cpu else 8192)
  dtype = jnp.float32 if cpu else jnp.bfloat16
  reads, read_bytes = timing.read_kernels(num_bytes)
  matrix = jax.random.normal(jax.random.key(0), (size, size), dtype)
  product = jax.jit(lambda a: a @ a)
  cases = {
    **reads,
    "product": lambda: timing.seconds(lambda: product(matrix)),
  }
  times = timing.take_turns(cases, _REPEATS)
  middle = {name: statistics.median(values) for name, values in times.items()}
  bandwidth = read_bytes / min(middle[name] for name in reads)
  kind = jax.devices()[0].device_kind
  return Device(
    operations=2.0 * size**3 / middle["product"],
    bandwidth=float(bandwidth),
    memory=_memory(),
    link=0.0,
    source=f"measured on {kind}, {jnp.dtype(dtype).name}",
  )


def _memory() -> float:
  """Bytes of the device, or of the machine where it is a CPU."""
  found = jax.devices()[0].memory_stats() or {}
  if "bytes_limit" in found:
    return float(found["bytes_limit"])
  return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
