"""The command on a paper that takes no time."""

import json

from experiments import reproduce

PAPER = "--paper=deepseek_v3"


def test_a_paper_as_tables_json_and_a_page(run, tmp_path):
  folder = tmp_path / "out"
  got = run(reproduce.main, PAPER, "--json", f"--output={folder}")
  assert got.status == 0, got.err
  (record,) = got.records
  (paper,) = record["papers"]
  assert paper["paper"] == "deepseek_v3" and len(paper["cells"]) >= 7
  counted = sum(sum(found.values()) for found in record["counts"].values())
  assert counted == len(paper["cells"])
  assert json.loads((folder / "cells.json").read_text()) == record
  assert "DeepSeek" in (folder / "reproduction.html").read_text()
  again = run(reproduce.main, PAPER, f"--output={folder}")
  assert again.status == 1 and "already holds cells.json" in again.err
  shown = run(reproduce.main, PAPER)
  assert "formulas" in shown.out and "agrees" in shown.out


def test_an_unknown_paper_is_one_line(run):
  got = run(reproduce.main, "--paper=leviathan")
  assert got.status == 1 and got.err.count("\n") == 1
  assert "leviathan2023" in got.err
