"""Two runs beside one another: what changed, what fell, what is refused."""

import json

import numpy as np
import pytest

from experiments import compare_records
from specjax.evaluation import records
from specjax.evaluation.records import Mode
from tests.made_answers import PLAIN, lookup, make_answer

LOOKUP = lookup(4)


def _answer(mode, question, rounds, seconds, **fields):
  given = dict(decode_s=float(seconds), environment={"route": "main"})
  return make_answer(mode, question, rounds, **{**given, **fields})


def _run(path, kept, speed=2.0, questions=12, seed=0, **fields):
  """A run in which lookup keeps a share of its tokens, as a record file.

  Plain decoding takes a second a token, lookup 1 / `speed`.
  """
  rng = np.random.default_rng(seed)
  for number in range(questions):
    accepted = rng.binomial(4, kept, 40)
    rounds = [(4, int(n), int(n) + 1, 5) for n in accepted]
    tokens = sum(n + 1 for n in accepted)
    plain = [(0, 0, 1, 1)] * int(tokens)
    question = f"q{number}"
    for answer in (
      _answer(PLAIN, question, plain, tokens, **fields),
      _answer(LOOKUP, question, rounds, tokens / speed, **fields),
    ):
      records.append(path, answer.to_json())
  return str(path)


@pytest.fixture
def compare(call_command):
  """(status, stdout, stderr) of the command."""
  return lambda *argv: call_command(compare_records.main, argv, ("A", "B"))


def _rows(out):
  found = json.loads(out)
  return found, {(row["mode"], row["tag"]): row for row in found["modes"]}


def test_a_run_beside_itself_shows_no_change(compare, tmp_path):
  file = _run(tmp_path / records.FILE, 0.6)
  status, out, err = compare(str(tmp_path), file, "--json", "--fail_on_fall")
  found, rows = _rows(out)
  row = rows["ngram k=4", "main"]
  assert (status, err, found["fell"]) == (0, "", [])
  assert row["answers"] == row["questions"] == 12
  assert row["a"] == row["b"]
  assert row["a"]["speedup"]["estimate"] == pytest.approx(2.0)
  assert row["speedup_ratio"]["estimate"] == pytest.approx(1.0)
  assert row["acceptance_difference"]["estimate"] == 0.0
  assert (row["identity"]["compared"], row["identity"]["equal"]) == (12, 12)
  assert rows["none", "main"]["acceptance_difference"] is None
  assert rows["none", "main"]["a"]["speedup"] is None


def test_a_fall_is_flagged_and_can_fail(compare, tmp_path):
  a = _run(tmp_path / "a.jsonl", 0.7, speed=2.0)
  b = _run(tmp_path / "b.jsonl", 0.6, speed=1.5, seed=1)
  status, out, _ = compare(a, b, "--json")
  found, rows = _rows(out)
  row = rows["ngram k=4", "main"]
  assert status == 0 and found["fell"] == ["ngram k=4 (main)"]
  assert row["acceptance_difference"]["estimate"] == pytest.approx(
    row["b"]["draft_acceptance_rate"] - row["a"]["draft_acceptance_rate"]
  )
  assert row["acceptance_difference"]["high"] < 0
  assert row["acceptance_difference"]["estimate"] == pytest.approx(
    -0.1, abs=0.03
  )
  assert row["speedup_ratio"]["estimate"] == pytest.approx(0.75)
  assert row["identity"]["equal"] < 12
  assert compare(a, b, "--fail_on_fall")[0] == compare_records.FELL
  assert compare(b, a, "--fail_on_fall")[0] == 0  # a rise is none
  assert compare(a, b, "--fail_on_fall", "--threshold=0.2")[0] == 0


def test_what_an_interval_does_not_show_is_not_flagged(compare, tmp_path):
  a = _run(tmp_path / "a.jsonl", 0.6, questions=12)
  b = _run(tmp_path / "b.jsonl", 0.6, questions=12, seed=6)
  one = _run(tmp_path / "one.jsonl", 0.2, questions=1)
  for runs in ((a, b), (b, a)):  # the rate is lower one way or the other
    assert compare(*runs, "--fail_on_fall")[0] == 0
  found, rows = _rows(compare(a, one, "--json")[1])
  difference = rows["ngram k=4", "main"]["acceptance_difference"]
  assert difference["estimate"] < -0.3 and difference["low"] is None
  assert found["fell"] == []
  status, out, _ = compare(a, one, "--fail_on_fall")
  assert status == 0 and "no fall of acceptance" in out


def test_a_fall_is_found_in_the_route_that_has_it(compare, tmp_path):
  a, b = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
  for path, chat in ((a, 0.7), (b, 0.5)):
    for route, kept in (("code", 0.7), ("chat", chat)):
      part = path.with_suffix(f".{route}")
      _run(part, kept, seed=3, environment={"route": route})
      for answer in records.read(part):
        named = {"question_id": f"{route} {answer.question_id}"}
        records.append(path, {**answer.to_json(), **named})
  found, rows = _rows(compare(str(a), str(b), "--json")[1])
  assert found["fell"] == ["ngram k=4 (chat)"]
  assert rows["ngram k=4", "code"]["answers"] == 12


def test_runs_of_two_routes_are_compared_as_wholes(compare, tmp_path):
  a = _run(tmp_path / "a.jsonl", 0.7, environment={"route": "old"})
  b = _run(tmp_path / "b.jsonl", 0.5, environment={"route": "new"})
  found, _ = _rows(compare(a, b, "--json")[1])
  assert found["fell"] == ["ngram k=4 (old -> new)"]


def test_other_prompts_and_other_modes_are_left_out(compare, tmp_path):
  a = _run(tmp_path / "a.jsonl", 0.7)
  b = _run(tmp_path / "b.jsonl", 0.7, questions=3)
  alone = Mode("alone", "ngram", "exact_match", True, 4)
  for question, mode, prompt in (
    ("q5", LOOKUP, "another prompt"),
    ("q5", alone, "prompt of q5"),
  ):
    answer = _answer(mode, question, [(0, 0, 1, 1)], 1.0, prompt=prompt)
    records.append(tmp_path / "b.jsonl", answer.to_json())
  found, rows = _rows(compare(a, b, "--json")[1])
  assert found["other_prompts"] == 1
  assert (found["only_in_a"], found["only_in_b"]) == ([], ["alone"])
  assert rows["ngram k=4", "main"]["answers"] == 3
  _, out, _ = compare(a, b)
  text = " ".join(out.split())
  assert "only in B: alone" in text and "other prompts, left out: 1" in text


@pytest.mark.parametrize(
  "argv, status, error",
  [
    (("{a}",), 2, "B missing"),
    ((), 2, "A and B missing"),
    (("{a}", "{a}", "{a}"), 2, "unexpected argument"),
    (("{a}", "{a}", "--threshold=2"), 2, "threshold"),
    (("{a}", "nowhere"), 1, "no records at nowhere"),
    (("{a}", "{a}", "--tag=colour"), 1, "no 'colour'"),
    (("{a}", "{other}"), 1, "no answer in common"),
  ],
)
def test_bad_input_is_one_line(compare, tmp_path, argv, status, error):
  a = _run(tmp_path / "a.jsonl", 0.7, questions=1)
  other = tmp_path / "other.jsonl"
  answer = _answer(PLAIN, "elsewhere", [(0, 0, 1, 1)], 1.0)
  records.append(other, answer.to_json())
  got = compare(*(text.format(a=a, other=other) for text in argv))
  assert got[0] == status and got[1] == ""
  assert got[2].startswith("error: ") and error in got[2]
  assert got[2].count("\n") == 1


def test_settings_that_differ_are_named(compare, tmp_path):
  for name, tokens in (("a", 8), ("b", 128)):
    (tmp_path / name).mkdir()
    _run(tmp_path / name / records.FILE, 0.6)
    config = {"max_new_tokens": tokens, "seed": 0, name: 1}
    stated = {"config": config, "machine": {}}
    (tmp_path / name / "config.json").write_text(json.dumps(stated))
  folders = (str(tmp_path / "a"), str(tmp_path / "b"))
  _, out, _ = compare(*folders, "--json")
  assert json.loads(out)["settings_differ"] == {
    "max_new_tokens": [8, 128],
    "a": [1, None],
    "b": [None, 1],
  }
  _, out, _ = compare(*folders)
  assert "settings differ: max_new_tokens is 8 in A, 128 in B" in out
