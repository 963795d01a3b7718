"""Commands may be imported into one process, in any order."""

import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Its flags are named as those of generate: always in a process of its own.
ALONE = {"aot"}
# absl refuses a second definition of a name where neither may be overridden,
# and else takes the default of the later one.
SCRIPT = """
import importlib, json, sys
from absl import flags

put, firm, defaults = flags.FlagValues.__setitem__, {}, {}

def record(values, name, flag):
  if not flag.allow_override:
    firm.setdefault(name, []).append(module)
  flag.allow_override = True
  stated = type(flag.parser).__name__ + " " + str(flag.default)
  defaults.setdefault(name, {}).setdefault(stated, []).append(module)
  put(values, name, flag)

flags.FlagValues.__setitem__ = record
for module in sys.argv[1:]:
  importlib.import_module("experiments." + module)
print(json.dumps([firm, defaults]))
"""


def test_commands_agree_on_the_flags_that_they_share():
  names = {path.stem for path in (ROOT / "experiments").glob("*.py")}
  names = sorted(names - ALONE - {"__init__"})
  out = subprocess.run(
    [sys.executable, "-c", SCRIPT, *names],
    cwd=ROOT,
    capture_output=True,
    check=True,
    text=True,
  ).stdout
  firm, defaults = json.loads(out)
  assert {"model", "worlds", "samples"} <= firm.keys()
  twice = {name: by for name, by in firm.items() if len(by) > 1}
  assert not twice, f"give these **ALSO_ELSEWHERE, or another name: {twice}"
  del defaults["config"]  # each command has a file of its own
  odd = {name: by for name, by in defaults.items() if len(by) > 1}
  assert not odd, f"one default each, or another name: {odd}"
