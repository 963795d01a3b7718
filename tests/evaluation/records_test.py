"""Record files: what was written comes back, also after a kill."""

import dataclasses
import json

import pytest

from specjax.evaluation import records


def test_an_answer_comes_back_from_its_line(tmp_path, build, plain, lookup):
  answers = [
    build(plain, "a", text="naïve ☃\n"),
    build(lookup, "b", predicted_s=0.25, begun=True, turn=1),
  ]
  for answer in answers:
    records.append(tmp_path / records.FILE, answer.to_json())
  assert records.read(tmp_path) == answers
  assert records.read(tmp_path / records.FILE) == answers
  assert records.modes(answers) == [plain, lookup]


def test_a_line_carries_the_figures_that_follow(build, lookup):
  line = build(lookup, seconds=4.0).to_json()
  assert json.loads(json.dumps(line))["mode"]["name"] == "ngram k=3"
  wanted = {
    "new_tokens": 10,
    "drafted": 11,
    "accepted": 6,
    "accept_lengths": [4, 2, 1, 1, 2],
    "mean_acceptance_length": 2.0,
    "draft_acceptance_rate": 6 / 11,
    "acceptance_per_position": [0.75, 0.5, 0.25],
    "tokens_per_s": 2.5,
  }
  assert {name: line[name] for name in wanted} == wanted


def test_a_line_cut_short_is_left_out_and_mended(tmp_path, build, plain):
  file = tmp_path / records.FILE
  records.append(file, build(plain, "a").to_json())
  whole = file.read_bytes()
  file.write_bytes(whole + whole[: len(whole) // 2])
  assert [answer.question_id for answer in records.read(file)] == ["a"]
  records.mend(file)
  assert file.read_bytes() == whole
  records.mend(file)
  assert file.read_bytes() == whole
  records.mend(tmp_path / "none")


def test_a_broken_line_is_named(tmp_path, build, plain):
  file = tmp_path / records.FILE
  good = json.dumps(build(plain).to_json())
  file.write_text(f"{good}\n{{broken\n{good}\n")
  with pytest.raises(ValueError, match="line 2: no JSON"):
    records.read(file)
  file.write_text(f'{good}\n{{"mode": 1}}\n')
  with pytest.raises(ValueError, match="line 2: no record"):
    records.read(file)
  with pytest.raises(ValueError, match="no records at"):
    records.read(tmp_path / "elsewhere")


def test_modes_of_one_law_are_comparable(plain, lookup):
  assert plain.law == lookup.law and plain.is_plain and not lookup.is_plain
  assert dataclasses.replace(plain, top_p=0.9).law != plain.law
