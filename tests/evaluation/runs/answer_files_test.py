"""Answers as FastChat and Spec-Bench write them."""

import json

import pytest

from specjax.evaluation.records import Mode
from specjax.evaluation.runs import answer_files
from tests.made_answers import lookup, make_answer

PLAIN = Mode("none")
LOOKUP = lookup(7)


def answer(mode, name, turn=0, repeat=0, rounds=((0, 0, 1, 1),) * 3, **fields):
  given = dict(
    category="writing",
    turn=turn,
    repeat=repeat,
    text=f"{mode.name} {name} {turn} {repeat}",
    compile_s=100.0,
    prefill_s=0.25,
    decode_s=1.0 + turn,
  )
  return make_answer(mode, name, rounds, **{**given, **fields})


ROUNDS = ((7, 3, 4, 8), (0, 0, 1, 1), (7, 0, 1, 8))


def lines(path):
  return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_line_holds_a_question_s_turns(tmp_path):
  answers = [
    answer(PLAIN, "81", 0),
    answer(LOOKUP, "81", 0, rounds=ROUNDS),
    answer(LOOKUP, "81", 1, rounds=ROUNDS[1:]),
    answer(PLAIN, "81", 1),
    answer(PLAIN, "code-1"),
  ]
  files = answer_files.write(answers, tmp_path / "answers")
  assert {f.name for f in files.values()} == {"none.jsonl", "ngram_k=7.jsonl"}
  (line,) = lines(files["ngram k=7"])
  assert set(line) == {
    "question_id",
    "category",
    "answer_id",
    "model_id",
    "choices",
    "tstamp",
  }
  assert line["question_id"] == 81 and line["category"] == "writing"
  assert line["model_id"] == "tiny ngram k=7"
  assert line["choices"] == [
    {
      "index": 0,
      "turns": ["ngram k=7 81 0 0", "ngram k=7 81 1 0"],
      "decoding_steps": [3, 2],
      "new_tokens": [6, 2],
      "wall_time": [1.25, 2.25],
      "accept_lengths": [4, 1, 1, 1, 1],
    }
  ]
  plain = lines(files["none"])
  assert [p["question_id"] for p in plain] == [81, "code-1"]
  ids = {x["answer_id"] for x in [line, *plain]}
  assert len(ids) == 3


def test_repeats_are_choices_and_unfinished_conversations_left_out(tmp_path):
  answers = [
    answer(PLAIN, "81", 0, 0),
    answer(PLAIN, "81", 1, 0),
    answer(PLAIN, "81", 0, 1),
  ]
  files = answer_files.write(answers, tmp_path)
  (line,) = lines(files["none"])
  assert [choice["index"] for choice in line["choices"]] == [0]
  answers.append(answer(PLAIN, "81", 1, 1))
  (line,) = lines(answer_files.write(answers, tmp_path)["none"])
  assert [choice["index"] for choice in line["choices"]] == [0, 1]


def test_spec_bench_s_own_arithmetic_gives_the_speed(tmp_path):
  """As in its evaluation/speed.py: sums over turns, then their ratio."""
  answers = [answer(LOOKUP, "1", t, rounds=ROUNDS) for t in range(2)]
  answers.append(answer(LOOKUP, "2", 0, rounds=ROUNDS[1:]))
  speeds, accepted = [], []
  for line in lines(answer_files.write(answers, tmp_path)["ngram k=7"]):
    choice = line["choices"][0]
    speeds.append(sum(choice["new_tokens"]) / sum(choice["wall_time"]))
    accepted.extend(choice["accept_lengths"])
  assert speeds == pytest.approx([12 / 3.5, 2 / 1.25])
  assert sum(accepted) / len(accepted) == pytest.approx(14 / 8)


def test_names_are_safe_and_differ():
  modes = [Mode(n) for n in ("a b", "a_b", "org/x:Y k=1", "größe")]
  names = answer_files.file_names(modes)
  assert len(set(names.values())) == 4
  assert all(set("/: ö").isdisjoint(name) for name in names.values())
