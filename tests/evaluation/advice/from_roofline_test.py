"""Advice by the roofline: the published page's four cases, and its edges."""

import dataclasses

import numpy as np
import pytest

from configs import roofline as config
from specjax.evaluation.advice import candidates as drafters
from specjax.evaluation.advice import from_roofline, outlook
from specjax.evaluation.roofline import question
from specjax.evaluation.roofline.cases import Acceptance
from specjax.theory import positions, roofline, rounds

MODEL, LOOKUP, HEAD = "qwen3-0.6b", "ngram", "head"


def candidates(*names, given=(), copies=False, **changes):
  settings = {**config.get_config().to_dict(), **changes, "drafters": names}
  asked = question.ask({**settings, "acceptance_from": None})
  return drafters.build(asked, settings, given, copies=copies)


def by_name(found):
  return {one["name"]: one for one in found["candidates"]}


def test_one_user_or_few():
  """Single digits: a draft model, four tokens or nearly."""
  for batch in (1, 4):
    found = from_roofline.advise(candidates(MODEL, LOOKUP), "latency", batch)
    assert found["use"] == MODEL
    assert found["num_speculative_tokens"] == 3
    assert found["speedup"] > 1.7
    assert any(
      "single digits" in why and "arithmetic agrees" in why
      for why in found["reasons"]
    )
  alone = from_roofline.advise(candidates(MODEL), "latency", 1)
  assert alone["alike"] == [3, 4]
  # Printed for one user: 1.94 at three and at four.
  assert alone["speedup"] == pytest.approx(1.94, rel=0.035)


def test_tens_or_hundreds():
  """A drafter that costs nothing; a separate model is not worth it."""
  for batch in (64, 150):
    found = from_roofline.advise(candidates(MODEL, LOOKUP), "throughput", batch)
    assert found["use"] == LOOKUP
    assert found["num_speculative_tokens"] in (2, 3)
    with_head = candidates(MODEL, LOOKUP, HEAD)
    found = from_roofline.advise(with_head, "throughput", batch)
    assert found["use"] == HEAD
    assert found["num_speculative_tokens"] in (2, 3)
    assert any("tens or hundreds" in why for why in found["reasons"])
    assert any("with and without drafting" in one for one in found["missing"])
  model = by_name(found)[MODEL]
  assert model["value"] < 1 and model["gamma"] == 0


def test_answers_that_copy():
  """Lookup, at a handful as in a crowd; its acceptance is a guess."""
  for batch, objective in ((4, "latency"), (100, "throughput")):
    at_hand = candidates(MODEL, LOOKUP, copies=True)
    found = from_roofline.advise(at_hand, objective, batch, copies=True)
    assert found["use"] == LOOKUP and found["speedup"] > 2
    assert any("answers copy" in why for why in found["reasons"])
    assert any("acceptance of ngram" in one for one in found["missing"])


def test_a_users_speed_against_the_devices_tokens():
  """What is right for the one is a loss for the other, and is said so."""
  at_hand = candidates(MODEL)
  user = from_roofline.advise(at_hand, "latency", 8)
  assert user["use"] == MODEL and user["speedup"] > 1.5
  model = by_name(user)[MODEL]
  assert model["at_capacity"] < 1 and model["fits"] == 90
  (words,) = (why for why in user["reasons"] if "a loss there" in why)
  assert f"{model['at_capacity']:.2f} times" in words and "163 without" in words
  device = from_roofline.advise(at_hand, "throughput")
  assert device["use"] == "none" and device["speedup"] == 1.0
  assert device["batch"] == 163
  assert "the concurrency" in device["missing"][0]


def _speedups(case, batches, longest=10):
  """Of each batch and length, from the closed form of a round."""
  conditional = np.asarray(case.acceptance.conditional(longest))
  tokens = np.asarray(positions.tokens_by_length(conditional))[None, 1:]
  return np.asarray(
    rounds.speculative_round(
      case.target,
      case.drafter,
      case.device,
      case.setup,
      np.asarray(batches, np.float64)[:, None],
      case.mean_context,
      np.arange(1.0, longest + 1)[None],
      tokens,
    ).speedup
  )


def test_off_above():
  """Drafting gains up to there and no further."""
  at_hand = candidates("qwen3-1.7b", given=("0.45",))
  found = from_roofline.advise(at_hand, "latency", 4)
  last = found["off_above"]
  assert 4 < last < by_name(found)["qwen3-1.7b"]["fits"]
  speedups = _speedups(at_hand[0].case, [1, last, last + 1]).max(-1)
  assert speedups[0] > speedups[1] > 1 >= speedups[2]
  assert found["schedule"][0][0] == 1
  assert found["schedule"][-1] == [last + 1, 163, 0]
  starts = [first for first, _, _ in found["schedule"][1:]]
  ends = [end + 1 for _, end, _ in found["schedule"][:-1]]
  assert starts == ends
  beyond = from_roofline.advise(at_hand, "latency", last + 1)
  assert beyond["use"] == "none" and beyond["best_candidate"] == "qwen3-1.7b"
  assert any(f"gains up to {last} seq" in why for why in beyond["reasons"])


def test_a_draft_without_room_is_off():
  found = from_roofline.advise(
    candidates(MODEL, given=("0.9",)), "latency", 100
  )
  assert found["use"] == "none" and found["off_above"] == 90
  assert any("only 90 sequences fit" in why for why in found["reasons"])


def test_throughput_pays_for_the_room():
  """At as many as plain decoding holds, the draft runs fewer."""
  (one,) = candidates(MODEL)
  case = one.case
  found = outlook.outlook(one, "throughput", 163, 3)
  context = case.mean_context
  step = roofline.model_pass(
    case.target, case.device, case.setup, 163, context
  ).seconds
  for gamma in (1, 2, 3):
    tokens = float(
      positions.expected_tokens(np.asarray(case.acceptance.conditional(gamma)))
    )
    ours = rounds.speculative_round(
      case.target,
      case.drafter,
      case.device,
      case.setup,
      90,
      context,
      gamma,
      tokens,
    )
    factor = float(ours.tokens_per_second * step / 163)
    assert factor <= found.value * (1 + 1e-5)
  assert found.value == pytest.approx(factor, rel=0.5)


def test_least_acceptance():
  (one,) = candidates(MODEL)
  found = outlook.outlook(one, "latency", 16, 6)
  assert found.break_even is not None
  for step, gains in ((-0.002, False), (0.002, True)):
    acceptance = Acceptance(found.break_even + step)
    case = dataclasses.replace(one.case, acceptance=acceptance)
    assert (_speedups(case, [16], 6).max() > 1) == gains
  hopeless = outlook.outlook(candidates("qwen3-8b")[0], "latency", 16, 6)
  assert hopeless.break_even is None and hopeless.gamma == 0


def test_what_is_not_known():
  at_hand = candidates(MODEL, LOOKUP, given=(f"{MODEL}:0.8",))
  found = from_roofline.advise(at_hand, "latency", 2)
  assert [one["assumed"] for one in found["candidates"]] == [False, True]
  text = " ".join(found["missing"])
  assert "acceptance of ngram" in text and MODEL not in text
  assert "80% of the bandwidth" in text
  known = from_roofline.advise(at_hand[:1], "latency", 2, measured=True)
  assert len(known["missing"]) == 1


def test_acceptance_of_records(build, lookup, tmp_path):
  from specjax.evaluation import records

  answer = build(lookup, "q", [(3, 3, 4, 4), (3, 0, 1, 4)] * 40)
  records.append(tmp_path / records.FILE, answer.to_json())
  at_hand = candidates(MODEL, LOOKUP, acceptance_from=str(tmp_path))
  assert [one.assumed for one in at_hand] == [True, False]
  assert at_hand[1].case.acceptance.recorded == (0.5, 1.0, 1.0)
  found = from_roofline.advise(at_hand, "throughput", 64)
  assert found["use"] == LOOKUP and found["num_speculative_tokens"] == 3
  assert found["speedup"] == pytest.approx(2.5, rel=0.01)


@pytest.mark.parametrize(
  "arguments, error",
  [
    (dict(objective="speed"), "objective is latency or throughput"),
    (dict(batch=164), "164 sequences of 2048 tokens do not fit.*163 do"),
    (dict(candidates=[]), "no candidate is named"),
  ],
)
def test_what_is_refused(arguments, error):
  given = {"candidates": candidates(LOOKUP), "objective": "latency"}
  with pytest.raises(ValueError, match=error):
    from_roofline.advise(**{**given, **arguments})


def test_a_target_without_room():
  with pytest.raises(ValueError, match="do not fit into 1 x h100: try --chips"):
    outlook.choose(candidates(LOOKUP, target="qwen2.5-72b"), "latency")


@pytest.mark.parametrize(
  "given, error",
  [
    (("many",), "acceptance is 0.75, or name:0.75"),
    (("oracle:0.5",), "'oracle', which is no candidate: ngram"),
    (("1.5",), r"must be in \[0, 1\]"),
  ],
)
def test_wrong_rates(given, error):
  with pytest.raises(ValueError, match=error):
    candidates(LOOKUP, given=given)
