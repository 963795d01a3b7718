"""What a folder shows, from records and costs written by hand."""

import dataclasses
import json

import pytest

from specjax.evaluation import records
from specjax.evaluation.figures import plots
from specjax.evaluation.records import Mode
from specjax.evaluation.runs import differences, results, run_folder
from tests.made_answers import PLAIN, lookup, make_answer

LOOKUP = lookup(2)


def answer(mode, name, rounds, decode_s, tokens=None):
  fields = dict(
    category="math",
    prompt_tokens=100,
    prefill_s=0.25,
    compile_s=0.0,
    decode_s=decode_s,
    environment={"model": "tiny", "config_hash": "0"},
  )
  if tokens is not None:
    fields["token_ids"] = tokens
  return make_answer(mode, name, rounds, **fields)


ANSWERS = [
  answer(PLAIN, "1", ((0, 0, 1, 1),) * 6, 6.0),
  answer(LOOKUP, "1", ((2, 2, 3, 3), (2, 2, 3, 3)), 2.0),
  answer(PLAIN, "2", ((0, 0, 1, 1),) * 4, 4.0),
  answer(
    LOOKUP, "2", ((2, 0, 1, 3), (0, 0, 1, 1)) * 2, 4.0, tokens=(0, 1, 9, 9)
  ),
]
# A pass takes 1 s and 3 slots 1.5 s, both 0.5 s more at 200 tokens than at 100;
# drafting takes 0.25 s, none 0.
COSTS = [
  {"part": "pass", "width": w, "context": c, "seconds": s + (c - 100) / 200}
  for w, s in ((1, 1.0), (3, 1.5))
  for c in (100, 200)
] + [
  {
    "part": "draft",
    "mode": mode,
    "drafted": drafted,
    "behind": False,
    "context": 100,
    "seconds": seconds,
  }
  for mode, drafted, seconds in (
    ("none", 0, 0.0),
    ("ngram k=2", 0, 0.0),
    ("ngram k=2", 2, 0.25),
  )
]


@pytest.fixture
def folder(tmp_path):
  with run_folder.claim(tmp_path, {"seed": 0}, {}, command="it") as claimed:
    for one in ANSWERS:
      claimed.append(one)
    for line in COSTS:
      records.append(tmp_path / "costs.jsonl", line)
  return tmp_path


def test_predicted_seconds_are_drafting_and_passes_of_the_rounds_run(folder):
  lookup = results.predicted(ANSWERS[1], COSTS)
  first, second = 0.25 + 1.5, 0.25 + 1.5 + 3 / 200
  assert lookup.predicted_s == pytest.approx(first + second)
  plain = results.predicted(ANSWERS[0], COSTS)
  assert plain.predicted_s == pytest.approx(6 + sum(range(6)) / 200)
  unknown = dataclasses.replace(ANSWERS[0], rounds=((0, 0, 1, 7),))
  assert results.predicted(unknown, COSTS).predicted_s is None
  other = dataclasses.replace(ANSWERS[0], mode=Mode("peer", system="torch"))
  assert results.predicted(other, COSTS).predicted_s is None
  assert results.predicted(ANSWERS[0], []).predicted_s is None


def test_everything_is_written_from_the_records(folder):
  summary = results.write(folder)
  assert json.loads((folder / "summary.json").read_text()) == json.loads(
    json.dumps(summary)
  )
  assert summary["config"] == {"seed": 0}
  assert summary["baseline"] == "none"
  assert summary["costs"]["ngram k=2"]["passes"][3][200] == 2.0
  names = ("table.txt", "table.tex", "metrics.prom", "vllm.log", "report.html")
  assert all((folder / name).stat().st_size for name in names)
  assert "ngram k=2" in (folder / "table.txt").read_text()
  assert list((folder / "plots").glob("*.png"))
  lines = (folder / "answers" / "ngram_k=2.jsonl").read_text().splitlines()
  assert [json.loads(line)["question_id"] for line in lines] == [1, 2]


def test_differences_that_were_looked_at_are_counted(folder, monkeypatch):
  monkeypatch.setattr(plots, "draw", lambda *_: [])  # they take seconds
  entry = {e["mode"]["name"]: e for e in results.write(folder)["modes"]}
  identity = entry["ngram k=2"]["identity"]
  assert (identity["compared"], identity["equal"]) == (2, 1)
  assert identity["near_ties"] is None
  found = {"question_id": "2", "turn": 0, "repeat": 0, "kind": "near-tie"}
  (folder / differences.FILE).write_text(json.dumps({"ngram k=2": [found]}))
  entry = {e["mode"]["name"]: e for e in results.write(folder)["modes"]}
  assert entry["ngram k=2"]["identity"]["near_ties"] == 1


def test_no_answers_or_no_run_is_one_line(tmp_path):
  with pytest.raises(ValueError, match="is no folder of a run"):
    results.write(tmp_path)
  with run_folder.claim(tmp_path, {}, {}):
    pass
  with pytest.raises(ValueError, match="no records"):
    results.write(tmp_path)
