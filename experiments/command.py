"""What every command shares: one clear line for a user's error, exit codes."""

import os
import sys
from collections.abc import Callable, Sequence

from absl import app, flags

from experiments import memory

INTERRUPTED = 130

_DEBUG = flags.DEFINE_boolean(
  "debug", False, "Show the traceback of an error instead of one line."
)


def run(main: Callable[[], int | None]) -> None:
  """Parses the flags, calls main and exits with its status."""
  memory.return_freed_memory()  # before anything starts a thread
  sys.exit(call(main, sys.argv))


def call(main: Callable[[], int | None], argv: Sequence[str]) -> int:
  """The status of a command: main's, 1 for an error, 2 for a wrong flag.

  An error is one line on stderr.
  """
  try:
    _parse(argv)
    return main() or 0
  except flags.Error as error:
    return _fail(error, 2)
  except (ValueError, OSError) as error:
    if isinstance(error, BrokenPipeError):
      # Nobody reads on; nothing may be flushed into the pipe at exit either.
      os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
      return 1
    if flags.FLAGS.is_parsed() and _DEBUG.value:
      raise
    return _fail(error, 1)
  except KeyboardInterrupt:
    print("interrupted", file=sys.stderr)
    return INTERRUPTED


def _parse(argv: Sequence[str]) -> None:
  app.define_help_flags()
  if {"--help", "-help", "--helpshort", "-h"} & set(argv[1:]):
    app.usage(shorthelp=True, writeto_stdout=True, exitcode=0)
  rest = flags.FLAGS(list(argv))[1:]
  if rest:
    raise flags.Error(f"unexpected argument {rest[0]!r}; see --help")


def _fail(error: Exception, status: int) -> int:
  text = " ".join(str(error).split()) or type(error).__name__
  print(f"error: {text}", file=sys.stderr)
  return status
