"""Costs of a round's parts: arithmetic by hand, and what really runs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specjax import acceptance, passes, testing
from specjax.drafters import DraftModel, NGram, NoDraft
from specjax.evaluation.costs import cost_parts, costs
from specjax.sampling import make_sampling
from specjax.testing import runs
from specjax.types import Params, Slots

MODEL = testing.TableModel(5, 2)
TARGET = testing.random_table(0, 5)
DRAFT = testing.blur(TARGET, 1)
LINE = costs.Costs(
  passes={1: {100: 20.0, 200: 30.0}, 4: {100: 40.0, 200: 60.0}},
  drafts={
    False: {0: {100: 0.0}, 1: {100: 2.0}, 3: {100: 6.0}},
    True: {0: {100: 0.0}, 1: {100: 3.0}, 3: {100: 7.0}},
  },
)


def sample(part, seconds, **labels):
  return {"part": part, "seconds": seconds, **labels}


def test_a_prediction_is_drafting_and_passes_added_up():
  rounds = [(3, 3, 4, 4), (3, 0, 1, 4), (0, 0, 1, 1), (2, 1, 2, 4)]
  # Contexts 150, 154, 155, 156; the second round is behind, and two tokens
  # stand between one and three.
  drafting = 6.0 + 7.0 + 0.0 + 4.0
  target = (40 + 10.0) + (40 + 10.8) + (20 + 5.5) + (40 + 11.2)
  got = costs.predict_seconds(rounds, LINE, 150)
  assert got == pytest.approx(drafting + target)
  assert costs.predict_seconds([], LINE, 150) == 0


def test_contexts_outside_those_measured_cost_what_the_nearest_does():
  assert LINE.pass_seconds(1, 10) == 20.0
  assert LINE.pass_seconds(1, 900) == 30.0
  with pytest.raises(ValueError, match="no pass of 2 slots"):
    LINE.pass_seconds(2, 100)


def test_the_draft_step_is_the_slope_past_the_first_token():
  assert LINE.draft_step_seconds(100) == pytest.approx(2.0)
  assert LINE.c(100) == pytest.approx(0.1)


def test_costs_are_medians_of_one_mode():
  lines = [
    *(sample("pass", s, width=1, context=9) for s in (5.0, 1.0, 3.0)),
    sample("draft", 2.0, mode="a", drafted=1, behind=False, context=9),
    sample("draft", 9.0, mode="b", drafted=1, behind=False, context=9),
    sample("draft", -1.0, mode="a", drafted=0, behind=False, context=9),
    sample("round", 5.0, mode="a", context=9, rounds=[(1, 0, 1, 1)]),
    sample("round", 8.0, mode="a", context=9, rounds=[(1, 0, 1, 1)]),
    sample("round", 10.0, mode="a", context=9, rounds=[(1, 0, 1, 1)]),
  ]
  got = costs.Costs.from_samples(lines, "a")
  assert got.passes == {1: {9: 3.0}}
  assert got.drafts[False][1] == {9: 2.0}
  assert 0 < got.drafts[False][0][9] < 1e-6  # noise is never below nothing
  # A round is predicted to take 2 + 3 of 5, of 8 and of 10.
  share = costs.bookkeeping(lines, got, "a")
  assert share == pytest.approx(1 - 5 / 8)
  assert costs.bookkeeping(lines, got, "b") is None
  with pytest.raises(ValueError, match="mode 'c'"):
    costs.Costs.from_samples(lines, "c")


def subjects():
  def of(mode, drafter, rule, draft=None, counts=None):
    engine = runs.make_engine(MODEL, drafter, rule)
    params = Params(TARGET, draft)
    return costs.Subject(mode, engine, params, make_sampling(1), counts)

  match, reject = acceptance.ExactMatch(), acceptance.Rejection()
  return [
    of("none", NoDraft(), match),
    of("ngram", NGram(3), match, counts=(0, 3)),
    of("model", DraftModel(MODEL, 2), reject, DRAFT),
  ]


def test_a_sample_has_one_line_of_every_cost_each_time():
  sampler = costs.Sampler(
    subjects(), context_lengths=(8, 70), widths=(2,), rounds=2
  )
  for _ in range(2):
    lines = sampler.sample()
    labels = [tuple(v for k, v in x.items() if k != "seconds") for x in lines]
    for context in (8, 70):
      for width in (1, 2, 3, 4):
        assert ("pass", width, context) in labels
      for mode, drafted, behind in (
        *((m, 0, False) for m in ("none", "ngram", "model")),
        ("ngram", 3, False),
        *(("model", n, b) for n in (0, 1, 2) for b in (False, True)),
      ):
        assert ("draft", mode, drafted, behind, context) in labels
    rounds = [x for x in lines if x["part"] == "round"]
    assert len(lines) == 2 * (4 + 1 + 2 + 6 + 3) and len(rounds) == 6
    assert all(len(x["rounds"]) == 2 and x["seconds"] > 0 for x in rounds)
  for subject in subjects():
    assert costs.Costs.from_samples(lines, subject.mode).pass_seconds(1, 30) > 0


def test_contexts_that_do_not_fit_are_refused():
  with pytest.raises(ValueError, match="do not fit buffers of 16"):
    costs.Sampler(subjects(), context_lengths=(8, 14), capacity=16)
  with pytest.raises(ValueError, match="no mode"):
    costs.Sampler([])


def test_timed_passes_are_the_target_s_passes():
  cache = cost_parts.filled(MODEL, 16, 6)
  tokens = jnp.asarray([[3, 1, 4]])
  positions = 6 + jnp.arange(3)[None]
  slots = Slots(tokens, positions, passes.causal(positions))
  expected = MODEL(TARGET, slots, cache).logits
  for times in (0, 2):
    got = cost_parts.run_passes(
      MODEL, TARGET, tokens, cache, jnp.asarray(times)
    )
    np.testing.assert_array_equal(got, expected * (times > 0))


@pytest.mark.parametrize("keep, lag", [(False, 1), (True, 2)])
def test_drafting_is_timed_where_the_last_round_left_the_draft(keep, lag):
  subject = subjects()[2]
  engine, params = subject.engine, subject.params
  rows, draft = cost_parts.prefilled(
    engine, params, subject.sampling, cost_parts.filled(MODEL, 64, 19), 20
  )
  assert draft.cache.length.tolist() == [19]
  # The draft has read the very text of the rows.
  read = draft.cache.layers[0][0][0, 0, :19, 0]
  np.testing.assert_array_equal(read, rows.tokens[0, :19])
  copy = jax.tree.map(lambda x: x.copy(), draft)
  length, after, _ = cost_parts.run_drafts(
    engine, params, rows, copy, jnp.asarray([keep]), jnp.asarray(3)
  )
  assert length.tolist() == [20 + 3 * (3 if keep else 1)]
  assert (length - after.cache.length).tolist() == [lag]
  assert after.ready.tolist() == [lag]  # of the last of the three rounds
