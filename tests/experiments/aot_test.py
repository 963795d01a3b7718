"""The command that compiles for a TPU: what it refuses, without one."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_an_unknown_model_is_one_line():
  """In a process of its own: its flags are named as those of generate."""
  done = subprocess.run(
    [sys.executable, "-m", "experiments.aot", "--model=nope"],
    cwd=ROOT,
    capture_output=True,
    text=True,
  )
  assert done.returncode == 1 and done.stdout == ""
  (line,) = done.stderr.splitlines()
  assert line.startswith("error: ") and "nope" in line
