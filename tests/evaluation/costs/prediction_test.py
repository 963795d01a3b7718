"""Predicted against measured time, and the desk that the sweep runs on."""

import numpy as np
import pytest

from specjax import acceptance, testing
from specjax.drafters import DraftModel, NGram, NoDraft
from specjax.evaluation.costs import costs, prediction
from specjax.evaluation.costs.timed import Desk
from specjax.sampling import make_sampling
from specjax.types import ACCEPTED, EMITTED

MODEL = testing.TableModel(5, 2)
TARGET = testing.random_table(0, 5)
PROMPTS = [[1, 2, 3, 1, 2, 3], [4, 0, 4, 0]]
WALKED = np.asarray(TARGET["table"])
GREEDY = make_sampling(1)


def desk(**options):
  return Desk(MODEL, TARGET, capacity=64, new_tokens=24, **options)


def answer(desk, drafter, prompt, draft=None, law=GREEDY, rule=None):
  engine = desk.engine(drafter, rule)
  return desk.decode(engine, draft, desk.read(engine, draft, prompt, law))


def test_every_drafter_continues_what_the_target_has_read():
  table = desk()
  drafts = {NGram(3): None, DraftModel(MODEL, 2): testing.blur(TARGET, 1)}
  for prompt in PROMPTS:
    expected = testing.greedy_walk(WALKED, prompt, 24)
    for drafter, draft in {NoDraft(): None, **drafts}.items():
      for _ in range(2):  # what is kept of a prompt is not used up
        got = answer(table, drafter, prompt, draft)
        assert list(got.tokens) == expected
        assert sum(r[EMITTED] for r in got.rounds) == 24
        assert got.prompt_tokens == len(prompt) and got.seconds > 0


def test_stops_end_an_answer_only_where_they_are_asked_for():
  walk = testing.greedy_walk(WALKED, PROMPTS[0], 24)
  end = walk[3]
  got = answer(desk(eos_ids=(end,)), NGram(3), PROMPTS[0])
  assert list(got.tokens) == walk[: walk.index(end) + 1]
  with pytest.raises(ValueError, match="do not fit buffers of 64"):
    answer(desk(), NoDraft(), [1] * 41)


def test_a_sweep_adds_up_to_its_samples():
  plan = prediction.Plan(gammas=(1, 3), rates=(0.0, 0.9), turns=2, filler=3)
  said = []
  table = desk()
  got = prediction.sweep(table, PROMPTS, plan, said.append)
  names = ["none", "ngram", "ngram"]
  names += ["synthetic 0", "synthetic 0.9"] * 2
  cases = got["cases"]
  assert [c["name"] for c in cases] == names
  assert len(said) == 1 + 2 * 2
  plain = cases[0]
  assert plain["rounds"] == plain["tokens"] == 48 and plain["speedup"] == 1
  for case in cases:
    assert case["tokens"] == 48
    assert case["bookkeeping"] == pytest.approx(1 - 1 / case["ratio"])
    faster = plain["measured_s"] / case["measured_s"]
    assert case["speedup"] == pytest.approx(faster)
    assert (case["closed_form"] is None) == (case["acceptance_rate"] is None)
  by_rate = {
    c["acceptance_rate"]: c for c in cases if c["num_speculative_tokens"] == 3
  }
  assert by_rate[0.0]["mean_acceptance_length"] == 1
  assert by_rate[0.9]["mean_acceptance_length"] > 2
  each = [len(p) + i for p in PROMPTS for i in range(24)]
  expected = []
  for turn in range(2):
    lines = [
      x
      for x in got["costs"]
      if x["turn"] == turn and x["num_speculative_tokens"] == 0
    ]
    parts = costs.Costs.from_samples(lines, "none")
    expected.append(
      sum(parts.pass_seconds(1, n) + parts.draft_seconds(0, n) for n in each)
    )
  assert plain["predicted_s"] == pytest.approx(np.mean(expected))


def test_synthetic_rounds_are_the_same_in_every_turn():
  table = desk()
  rule = acceptance.LossySynthetic((0.9, 0.2))
  first, second = (
    answer(table, NGram(2, 1, 2), PROMPTS[1], rule=rule) for _ in range(2)
  )
  assert first.rounds == second.rounds and first.tokens == second.tokens
  stats = first.stats(2)
  assert stats.accepted == sum(r[ACCEPTED] for r in first.rounds)
  assert np.all(np.diff(stats.accepted_at) <= 0)
