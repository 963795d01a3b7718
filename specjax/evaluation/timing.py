"""Times that may be compared: taken in turns, in one run, after warm-up."""

import time
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import numpy as np


def take_turns(
  cases: Mapping[str, Callable[[], float]], repeats: int
) -> dict[str, list[float]]:
  """Each case's own seconds, the cases in turns, `repeats` times.

  Every case is called once before, for compilation and warm caches.
  """
  for case in cases.values():
    case()
  times: dict[str, list[float]] = {name: [] for name in cases}
  for _ in range(repeats):
    for name, case in cases.items():
      times[name].append(case())
  return times


def seconds(call: Callable[[], object]) -> float:
  """Wall time of a call, its result waited for."""
  start = time.perf_counter()
  jax.block_until_ready(call())
  return time.perf_counter() - start


def last_level_cache_bytes() -> int:
  """Size of the largest CPU cache; 32 MiB where the system does not say."""
  try:
    with open("/sys/devices/system/cpu/cpu0/cache/index3/size") as file:
      text = file.read().strip()
    return int(text.rstrip("KM")) * (1 << (20 if text.endswith("M") else 10))
  except (OSError, ValueError):
    return 32 << 20


def read_kernels(num_bytes: int | None = None):
  """Three ways of reading memory once, as {name: seconds of one read}.

  Over float32s of at least four times the last-level cache, on all threads.

  Returns:
    (cases for `take_turns`, bytes that each reads).
  """
  num_bytes = num_bytes or max(4 * last_level_cache_bytes(), 256 << 20)
  columns = 1024
  data = jnp.asarray(
    np.random.default_rng(0).random(
      (num_bytes // 4 // columns, columns), np.float32
    )
  )
  vector = jnp.ones((columns,), jnp.float32)
  kernels = {
    "sum": jax.jit(lambda x, v: x.sum()),
    "max": jax.jit(lambda x, v: x.max()),
    "matvec": jax.jit(lambda x, v: x @ v),
  }

  def case(kernel):
    return lambda: seconds(lambda: kernel(data, vector))

  cases = {f"read {name}": case(kernel) for name, kernel in kernels.items()}
  return cases, data.nbytes
