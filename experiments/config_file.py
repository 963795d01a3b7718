"""--config=FILE.py and --config.FIELD=VALUE, refused in one line."""

import re
import sys
from collections.abc import Callable
from pathlib import Path

from absl import flags
from ml_collections import config_flags

from experiments import command

_GIVEN = re.compile(r"--?config(=|$)")


def define(help_text: str) -> flags.FlagHolder:
  """The flag, without a default: `run` gives that."""
  # Another command of the same process may have such a flag too.
  return config_flags.DEFINE_config_file(
    "config", None, help_text, lock_config=True, allow_override=True
  )


def run(main: Callable[[], int | None], default: str) -> None:
  """`command.run` with a default file, after a look at the config's flags."""
  if not any(_GIVEN.match(argument) for argument in sys.argv[1:]):
    sys.argv.insert(1, f"--config={default}")
  if (fault := find_fault(sys.argv)) is not None:
    print(f"error: {fault}", file=sys.stderr)
    sys.exit(2)
  command.run(main)


def find_fault(argv: list[str]) -> str | None:
  """What is wrong with the config that a command line names, or None.

  A file may raise anything, and a field that it lacks is an AttributeError deep
  inside the parser of flags.
  """
  values = flags.FlagValues()
  holder = config_flags.DEFINE_config_file(
    "config", None, flag_values=values, sys_argv=argv
  )
  try:
    values(argv, known_only=True)
    if holder.value is not None:
      holder.value.to_dict()
  except AttributeError as error:
    return f"the config has no field {error}".replace('"', "")
  except Exception as error:  # whatever the file raises
    lines = [line.strip() for line in str(error).split("\n") if line.strip()]
    return " ".join(lines[-1:]) or type(error).__name__
  return None


def name() -> str:
  """The file's name without its folder and its ending."""
  path = config_flags.get_config_filename(flags.FLAGS["config"])
  return Path(path.partition(":")[0]).stem
