"""Commands may be imported into one process, in any order."""

import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Its flags are named as those of generate: always in a process of its own.
ALONE = {"aot"}
# absl refuses a second definition of a name where neither may be overridden.
SCRIPT = """
import importlib, json, sys
from absl import flags

put, firm = flags.FlagValues.__setitem__, {}

def record(values, name, flag):
  if not flag.allow_override:
    firm.setdefault(name, []).append(module)
  flag.allow_override = True
  put(values, name, flag)

flags.FlagValues.__setitem__ = record
for module in sys.argv[1:]:
  importlib.import_module("experiments." + module)
print(json.dumps(firm))
"""


def test_no_two_commands_insist_on_one_flag():
  names = {path.stem for path in (ROOT / "experiments").glob("*.py")}
  names = sorted(names - ALONE - {"__init__"})
  out = subprocess.run(
    [sys.executable, "-c", SCRIPT, *names],
    cwd=ROOT,
    capture_output=True,
    check=True,
    text=True,
  ).stdout
  firm = json.loads(out)
  assert {"model", "worlds", "samples"} <= firm.keys()
  twice = {name: by for name, by in firm.items() if len(by) > 1}
  assert not twice, f"give these **ALSO_ELSEWHERE, or another name: {twice}"
