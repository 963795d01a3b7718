"""Keeps a command's memory near what it uses."""

import ctypes

# mallopt's names for these, from glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_BYTES = 256 << 10


def return_freed_memory() -> None:
  """Tells glibc to give freed memory back to the system at once.

  By default it keeps what loading and compiling have freed, in a heap for each
  thread: a quarter of the default model's peak. Elsewhere this does nothing.
  """
  mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
  if mallopt is None:
    return
  mallopt(_M_ARENA_MAX, 1)
  mallopt(_M_MMAP_THRESHOLD, _BYTES)
  mallopt(_M_TRIM_THRESHOLD, _BYTES)
