"""Conversations made by a command: written, gone on with, packed, refused."""

import json
from pathlib import Path

import pytest

from experiments import conversations
from specjax.training import data

ARGS = (
  "--dtype=float32",
  "--max_answer_tokens=6",
  "--max_prompt_tokens=40",
  "--at_a_time=2",
  "--seed=0",
)


@pytest.fixture
def prompts(tmp_path):
  file = tmp_path / "prompts.jsonl"
  lines = [json.dumps({"prompt": "ab" * (i + 1)}) for i in range(3)]
  file.write_text("\n".join(lines) + "\n")
  return f"--prompt_file={file}"


def test_a_larger_count_goes_on_with_the_same_file(
  run, tiny, prompts, tmp_path
):
  argv = (f"--model={tiny}", prompts, "--temperatures=1,0", *ARGS)
  whole, grown = tmp_path / "whole.jsonl", tmp_path / "new" / "grown.jsonl"
  pack = tmp_path / "whole.npz"
  got = run(
    conversations.main,
    *argv,
    "--count=4",
    f"--output={whole}",
    f"--pack={pack}",
    "--json",
  )
  assert got.status == 0, got.err
  (found,) = got.records
  texts = data.read_conversations(whole)
  assert [text.temperature for text in texts] == [1.0, 0.0, 1.0, 0.0]
  assert found["conversations"] == 4
  assert found["answer_tokens"] == sum(
    b - a for text in texts for a, b in text.answers
  )
  assert data.unpack(pack) == texts
  for count in ("--count=1", "--count=4"):
    got = run(conversations.main, *argv, count, f"--output={grown}")
    assert got.status == 0, got.err
  assert grown.read_bytes() == whole.read_bytes()
  assert got.out.startswith("4 conversations with ")


@pytest.mark.parametrize(
  "argv, reason",
  [
    ((), "give --output"),
    (("--output=x", "--prompt_file=none.jsonl"), "no file none.jsonl"),
    (("--output=x", "--temperatures=hot"), "--temperatures must be numbers"),
    (("--output=x", "--count=0"), "count must be at least 1"),
  ],
)
def test_what_cannot_be_made_is_refused_in_one_line(
  run, argv, reason, tmp_path, monkeypatch
):
  monkeypatch.chdir(tmp_path)
  got = run(conversations.main, *argv)
  assert got.status == 1
  assert reason in got.err and got.err.count("\n") == 1
  assert not list(Path.cwd().iterdir())


@pytest.mark.parametrize(
  "flag", ["query_temperature=0.5", "max_query_tokens=9", "cut_queries"]
)
def test_queries_of_a_file_have_no_settings(run, prompts, flag):
  got = run(conversations.main, "--output=x", prompts, f"--{flag}")
  name = flag.partition("=")[0]
  assert f"--{name} is of queries that no file gives" in got.err
