"""Settings that every test runs under.

Eight simulated devices, warnings as errors (pyproject.toml), rank promotion and
key reuse as errors. Compilation is most of the tests' time, so programs are
compiled in a third of what it takes for users: LLVM does not optimise them,
fused operations are emitted the plain way, and a program is compiled in one
piece, since every core has a process of tests. What a test marked `runs_long`
compiles is optimised: it would spend more on running. Compiled programs are
kept between runs where SPECJAX_TEST_CACHE names a folder.
"""

import os

for _flag in (
  "--xla_force_host_platform_device_count=8",
  "--xla_backend_optimization_level=1",
  "--xla_cpu_use_fusion_emitters=false",
  "--xla_cpu_parallel_codegen_split_count=1",
):
  if _flag not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_flag}"
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")  # of commands too

import jax  # noqa: E402  (the flags above are read when jax starts)
import pytest  # noqa: E402

from experiments import memory  # noqa: E402

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_debug_key_reuse", True)
if _folder := os.environ.get("SPECJAX_TEST_CACHE"):
  jax.config.update("jax_compilation_cache_dir", os.path.abspath(_folder))
  jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
  """Optimises what a test that runs long compiles, its fixtures' too."""
  quick = item.get_closest_marker("runs_long") is None
  jax.config.update("jax_disable_most_optimizations", quick)
  return (yield)


@pytest.fixture(autouse=True, scope="module")
def few_mappings():
  """Gives programs back after a file that leaves the worker with too many."""
  yield
  memory.give_programs_back()
