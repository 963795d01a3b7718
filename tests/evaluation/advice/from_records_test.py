"""Advice by measured runs: what they show, and what they cannot."""

import numpy as np
import pytest

from specjax.evaluation.advice import from_records
from specjax.evaluation.records import Mode


def answers(build, plain, modes, questions=12, **fields):
  """Each of (mode, speed, spread) over plain decoding, a second a token."""
  rng = np.random.default_rng(0)
  made = []
  for number in range(questions):
    made.append(build(plain, f"q{number}", seconds=10.0, **fields))
    for mode, speed, spread in modes:
      seconds = 10.0 / (speed * np.exp(spread * rng.normal()))
      made.append(build(mode, f"q{number}", seconds=seconds, **fields))
  return made


@pytest.fixture
def longer():
  return Mode("ngram k=6", "ngram", "exact_match", True, 6)


@pytest.fixture
def lossy():
  return Mode("lenient", "model", "lossy_lenience", False, 3)


def test_the_fastest_that_is_shown_and_lawful(
  build, plain, lookup, longer, lossy
):
  modes = [(lookup, 1.8, 0.05), (longer, 1.4, 0.05), (lossy, 3.0, 0.05)]
  found = from_records.advise(answers(build, plain, modes), "latency")
  assert found["use"] == lookup.name and found["batch"] == 1
  assert found["num_speculative_tokens"] == 3
  assert found["speedup"]["low"] < 1.8 < found["speedup"]["high"]
  text = " ".join(found["reasons"])
  assert "lenient: " in text and "LOSSY, so not used" in text
  # Of four drafts position 1 is kept in three, position 3 in one.
  assert "acceptance per position: 0.750, 0.500, 0.250" in text
  assert "position 3 is still kept in 25%" in text
  assert found["off_above"] is None
  assert any("other batches than 1" in one for one in found["missing"])


def test_a_rare_position_ends_the_draft(build, plain, lookup):
  rounds = [(3, 3, 4, 4)] + [(3, 1, 2, 4)] * 9
  made = answers(build, plain, [])
  made += [build(lookup, f"q{i}", rounds, seconds=5.0) for i in range(12)]
  found = from_records.advise(made, "latency")
  assert any("position 2 is kept in less" in why for why in found["reasons"])
  assert any("try γ 1" in why for why in found["reasons"])


def test_what_an_interval_does_not_show(build, plain, lookup):
  made = answers(build, plain, [(lookup, 1.02, 0.5)])
  found = from_records.advise(made, "latency")
  assert found["use"] == "none" and found["speedup"] is None
  assert any("no gain is shown" in why for why in found["reasons"])
  assert any("would show a difference" in one for one in found["missing"])
  one = answers(build, plain, [(lookup, 2.0, 0.0)], questions=1)
  found = from_records.advise(one, "latency")
  assert found["use"] == "none"
  assert any("more prompts" in one for one in found["missing"])


def test_throughput_needs_a_crowd(build, plain, lookup):
  few = answers(build, plain, [(lookup, 2.0, 0.05)])
  found = from_records.advise(few, "throughput")
  assert found["use"] is None and found["speedup"] is None
  assert "batches of 1" in found["reasons"][0]
  assert "a batch of 10 or more" in found["missing"][0]
  crowd = answers(build, plain, [(lookup, 0.8, 0.05)], batch=32)
  found = from_records.advise(few + crowd, "throughput")
  assert found["use"] == "none" and found["batch"] == 32
  found = from_records.advise(few + crowd, "latency")
  assert found["use"] == lookup.name and found["off_above"] == 1
  assert not any("other batches" in one for one in found["missing"])


def test_classes_differ(build, plain, lookup):
  made = answers(build, plain, [(lookup, 2.0, 0.05)], category="edit")
  other = answers(build, plain, [(lookup, 0.8, 0.05)], category="story")
  for answer in other:
    made.append(
      build(
        answer.mode,
        f"story {answer.question_id}",
        answer.rounds,
        seconds=answer.decode_s,
        category="story",
      )
    )
  found = from_records.advise(made, "latency")
  assert found["classes"]["edit"]["use"] == lookup.name
  assert found["classes"]["story"]["use"] == "none"
  assert any("classes of prompts" in why for why in found["reasons"])


def test_without_plain_decoding(build, lookup):
  made = [build(lookup, f"q{i}") for i in range(9)]
  found = from_records.advise(made, "latency")
  assert found["use"] is None
  assert "plain decoding in the same run" in found["missing"][0]


def test_nothing_to_advise_from(build, plain):
  with pytest.raises(ValueError, match="no answers"):
    from_records.advise([], "latency")
  with pytest.raises(ValueError, match="objective is"):
    from_records.advise([build(plain)], "speed")
