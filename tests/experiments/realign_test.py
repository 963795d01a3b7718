"""The command on a toy of few steps."""

import json

import pytest

from experiments import realign
from specjax.training import toy_realignment as toy


@pytest.fixture
def call(call_command, monkeypatch):
  """(status, stdout, stderr) of the command."""
  short = toy.Toy(vocab_size=16, text=200, steps=20)
  monkeypatch.setattr(toy, "Toy", lambda: short)
  few = {n: toy.OBJECTIVES[n] for n in ("sft", "forward_kl", "total_variation")}
  monkeypatch.setattr(toy, "OBJECTIVES", few)
  return lambda *argv: call_command(realign.main, argv)


def test_a_table_json_and_a_figure(call, tmp_path):
  folder = tmp_path / "out"
  status, out, err = call("--worlds=2", "--json", f"--output={folder}")
  assert status == 0, err
  record = json.loads(out)
  assert [*record["objectives"]] == ["stale", *toy.OBJECTIVES]
  assert record["toy"]["steps"] == 20 and record["seeds"] == 2
  sft = record["objectives"]["sft"]["acceptance"]
  assert sft["low"] < sft["mean"] < sft["high"]
  assert json.loads((folder / "realign.json").read_text()) == record
  assert (folder / "realign.png").read_bytes().startswith(b"\x89PNG")
  status, _, err = call("--worlds=1", f"--output={folder}")
  assert status == 1 and "already holds realign.json" in err
  _, out, _ = call("--worlds=2")
  assert "total_variation" in out and "3.96" in out


def test_no_world_is_one_line(call):
  status, out, err = call("--worlds=0")
  assert status == 1 and not out and err.count("\n") == 1
