"""What every command shares: one clear line for a user's error, exit codes."""

import contextlib
import io
import os
import signal
import sys
from collections.abc import Callable, Generator, Sequence

from absl import app, flags

from experiments import memory

INTERRUPTED = 130

_DEBUG = flags.DEFINE_boolean(
  "debug", False, "Show the traceback of an error instead of one line."
)


def run(
  main: Callable[..., int | None], positional: Sequence[str] = ()
) -> None:
  """Parses the flags, calls main and exits with its status.

  Args:
    positional: names of the arguments that main takes, all of them needed.
  """
  memory.return_freed_memory()  # before anything starts a thread
  for name in ("stdout", "stderr"):
    if getattr(sys, name) is None:  # closed by the caller (>&-)
      setattr(sys, name, open(os.devnull, "w"))
  for stream in (sys.stdout, sys.stderr):
    if isinstance(stream, io.TextIOWrapper):
      stream.reconfigure(errors="backslashreplace")
  status = call(main, sys.argv, positional)
  if status == INTERRUPTED:
    # At a proper exit a compilation in a thread is waited for, or crashes.
    for stream in (sys.stdout, sys.stderr):
      with contextlib.suppress(OSError):
        stream.flush()
    os._exit(status)
  if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # A second Ctrl-C ends the clean-up at exit, without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
  sys.exit(status)


@contextlib.contextmanager
def interrupts_held() -> Generator[None]:
  """Ctrl-C waits until the block is done.

  Inside an import of native code it would crash or be an ImportError.
  """
  if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
    yield
    return
  came = []
  signal.signal(signal.SIGINT, lambda *_: came.append(True))
  try:
    yield
  finally:
    signal.signal(signal.SIGINT, signal.default_int_handler)
  if came:
    raise KeyboardInterrupt


def call(
  main: Callable[..., int | None],
  argv: Sequence[str],
  positional: Sequence[str] = (),
) -> int:
  """The status of a command: main's, 1 for an error, 2 for a wrong flag.

  An error is one line on stderr.
  """
  try:
    return main(*_parse(argv, positional)) or 0
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


def _parse(argv: Sequence[str], positional: Sequence[str]) -> list[str]:
  app.define_help_flags()
  if {"--help", "-help", "--helpshort", "-h"} & set(argv[1:]):
    app.usage(shorthelp=True, writeto_stdout=True, exitcode=0)
  if positional:
    flags.FLAGS.set_gnu_getopt()  # flags may follow them
  rest = flags.FLAGS(list(argv))[1:]
  if len(rest) < len(positional):
    missing = " and ".join(positional[len(rest) :])
    raise flags.Error(f"{missing} missing; see --help")
  if len(rest) > len(positional):
    unexpected = rest[len(positional)]
    raise flags.Error(f"unexpected argument {unexpected!r}; see --help")
  return rest


def _fail(error: Exception, status: int) -> int:
  text = " ".join(str(error).split()) or type(error).__name__
  print(f"error: {text}", file=sys.stderr)
  return status
