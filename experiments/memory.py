"""Keeps a command's memory near what it uses."""

import ctypes
import pathlib

# mallopt's names for these, from glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_SMALL, _LARGE = 256 << 10, 32 << 20


def return_freed_memory() -> None:
  """Tells glibc to give freed memory back to the system at once.

  By default it keeps what loading and compiling have freed, in a heap for each
  thread: a quarter of the default model's peak. Elsewhere this does nothing.
  """
  _set(_M_ARENA_MAX, 1)
  _set(_M_MMAP_THRESHOLD, _SMALL)
  _set(_M_TRIM_THRESHOLD, _SMALL)


def reuse_freed_memory() -> None:
  """Back to glibc's largest thresholds, for what is timed.

  A round's buffers would else be mapped anew each time: 15 % of a round.
  """
  _set(_M_MMAP_THRESHOLD, _LARGE)
  _set(_M_TRIM_THRESHOLD, 2 * _LARGE)


# Every compiled program is some 16 mappings of memory, and Linux allows a
# process 65,530: past that XLA aborts in whatever it compiles or writes next.
_MOST_MAPPINGS = 30_000


def give_programs_back() -> None:
  """Drops compiled programs where a process has come to hold too many."""
  maps = pathlib.Path("/proc/self/maps")
  if maps.exists() and maps.read_bytes().count(b"\n") > _MOST_MAPPINGS:
    import jax  # by now it runs

    jax.clear_caches()


def _set(option: int, value: int) -> None:
  mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
  if mallopt is not None:
    mallopt(option, value)
