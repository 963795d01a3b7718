"""The exactness command, on the known targets and on a tiny checkpoint."""

import json

import pytest

from experiments import exactness

TABLE = ("--model=table", "--drafter=ngram", "--seeds=3", "--samples=1024")
TEXT = "--prompt=abcabdabcabdab"


@pytest.mark.runs_long
def test_a_table_is_judged_and_leaves_its_figures(run, tmp_path):
  folder = tmp_path / "new"
  got = run(exactness.main, *TABLE, f"--output={folder}")
  assert got.status == 0, got.err
  assert "lossless: no test tells it from the target's law" in got.out
  assert "rejected at 3 of 3 seeds" in got.out
  record = json.loads((folder / "exactness.json").read_text())
  assert record["verdict"] in got.out and record["as_claimed"]
  assert record["drafter"] == "NGram k=2" and record["rule"] == "exact_match"
  assert record["sampling"]["temperature"] == 1.0
  assert record["columns"]["control"]["rejected_seeds"] == 3
  assert len(record["columns"]["speculative"]["seed_p_values"]) == 3
  image = (folder / "exactness.png").read_bytes()
  assert image.startswith(b"\x89PNG") and len(image) > 20_000
  again = run(exactness.main, *TABLE, f"--output={folder}")
  assert again.status == 1 and "already holds exactness.json" in again.err


def test_a_checkpoint_is_judged_at_its_own_law(run, tiny):
  flags = (f"--model={tiny}", TEXT, "--drafter=ngram", "--top_k=3")
  flags += ("--samples=512", "--seeds=2", "--rows=256", "--json")
  got = run(exactness.main, *flags)
  assert got.status == 0, got.err
  (record,) = got.records
  assert record["texts"] == 3**4 and record["verdict"].startswith("lossless")
  assert record["columns"]["speculative"]["drafted"] > 0


def test_greedy_outputs_are_compared(run, tiny):
  flags = (f"--model={tiny}", TEXT, "--drafter=ngram", "--greedy", "--json")
  got = run(exactness.main, *flags, "--prompt=xyzxyz", "--max_new_tokens=40")
  assert got.status == 0, got.err
  (record,) = got.records
  assert record["compared"] == 2 and record["faults"] == []
  assert record["equal"] + record["near_ties"] == 2 and record["lossless"]


def fault(run, *argv):
  got = run(exactness.main, *argv)
  assert got.status == 1 and got.out == "" and got.err.count("\n") == 1
  return got.err


def test_wrong_use_is_one_clear_line(run, tmp_path):
  assert "give a --drafter" in fault(run, "--model=table")
  assert "settings of a drafter go with a real model" in fault(
    run, "--model=table", "--drafter=ngram max_ngram=3"
  )
  assert "--draft_layers goes with a real model" in fault(
    run, "--model=table", "--drafter=model", "--draft_layers=2"
  )
  assert "samples must be at least 1" in fault(run, *TABLE, "--samples=0")
  assert "--greedy is at odds" in fault(
    run, *TABLE, "--greedy", "--temperature=1"
  )
  assert "--greedy compares real models" in fault(run, *TABLE, "--greedy")
  assert "has a prompt of its own" in fault(run, *TABLE, TEXT)
  assert "one prompt" in fault(run, *TABLE, TEXT, TEXT)
  assert "--lenience goes with" in fault(run, *TABLE, "--lenience=0.5")
  (tmp_path / "file").write_text("")
  assert "cannot make" in fault(run, *TABLE, f"--output={tmp_path / 'file'}")
