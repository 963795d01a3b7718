"""What a measurement ran on and with."""

import json
import os
import pathlib
import platform
import re
import socket
import subprocess

import jax

import specjax
from specjax.evaluation.runs import environment

ROOT = pathlib.Path(specjax.__file__).resolve().parents[1]


def test_all_that_a_record_must_carry_is_there(monkeypatch):
  jax.devices()  # reads the flags, and dies of one that it does not know
  monkeypatch.setenv("XLA_FLAGS", " --xla_foo=1 ")
  found = environment.describe("m", "float32", {"a": 1}, route="night")
  assert found["model"] == "m" and found["dtype"] == "float32"
  assert found["route"] == "night"
  assert found["xla_flags"] == "--xla_foo=1"
  assert found["versions"]["jax"] == jax.__version__
  assert found["versions"]["specjax"] == specjax.__version__
  assert found["python"] == platform.python_version()
  assert found["backend"] == jax.default_backend()
  assert found["device_count"] == len(jax.devices())
  assert 1 <= found["cores"] <= os.cpu_count() and found["cpu"]
  assert socket.gethostname() not in json.dumps(found).split('"')


def test_a_hash_is_of_what_a_config_says():
  one = environment.config_hash({"a": 1, "b": (2, 3)})
  assert re.fullmatch("[0-9a-f]{12}", one)
  assert one == environment.config_hash({"b": [2, 3], "a": 1})
  assert one != environment.config_hash({"a": 1, "b": (3, 2)})


def test_the_commit_is_the_checkout_s():
  if not (ROOT / ".git").exists():
    assert environment.commit() is None
    return
  head = subprocess.check_output(
    ["git", "-C", str(ROOT), "rev-parse", "HEAD"], text=True
  )
  assert head.startswith(environment.commit().rstrip("+"))


def test_no_git_is_no_error(monkeypatch):
  monkeypatch.setenv("PATH", "/nowhere")
  assert environment.commit() is None
