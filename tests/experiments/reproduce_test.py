"""The command on a paper that takes no time."""

import json

import pytest

from experiments import reproduce

PAPER = "--paper=deepseek_v3"


@pytest.fixture
def call(call_command):
  """(status, stdout, stderr) of the command."""
  return lambda *argv: call_command(reproduce.main, argv)


def test_a_paper_as_tables_json_and_a_page(call, tmp_path):
  folder = tmp_path / "out"
  status, out, err = call(PAPER, "--json", f"--output={folder}")
  assert status == 0, err
  record = json.loads(out)
  (paper,) = record["papers"]
  assert paper["paper"] == "deepseek_v3" and len(paper["cells"]) >= 7
  counted = sum(sum(found.values()) for found in record["counts"].values())
  assert counted == len(paper["cells"])
  assert json.loads((folder / "cells.json").read_text()) == record
  assert "DeepSeek" in (folder / "reproduction.html").read_text()
  status, _, err = call(PAPER, f"--output={folder}")
  assert status == 1 and "already holds cells.json" in err
  _, out, _ = call(PAPER)
  assert "formulas" in out and "agrees" in out


def test_an_unknown_paper_is_one_line(call):
  status, _, err = call("--paper=leviathan")
  assert status == 1 and err.count("\n") == 1
  assert "leviathan2023" in err
