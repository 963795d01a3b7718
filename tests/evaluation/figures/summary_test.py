"""Figures of made-up runs, worked out by hand."""

import dataclasses
import json

import pytest

from specjax.evaluation.figures.summary import summarize
from specjax.evaluation.records import Mode


def _entry(summary, name):
  (found,) = (m for m in summary["modes"] if m["mode"]["name"] == name)
  return found


@pytest.fixture
def run(build, plain, lookup):
  """Four questions; on the last two lookup is twice and four times as fast."""
  answers = []
  for question, speed in (("a", 1), ("b", 1), ("c", 2), ("d", 4)):
    answers.append(build(plain, question, seconds=4.0))
    answers.append(build(lookup, question, seconds=4.0 / speed))
  return answers


def test_pooled_figures(run):
  got = _entry(summarize(run), "ngram k=3")["pooled"]
  assert got["answers"] == got["questions"] == 4
  assert (got["new_tokens"], got["passes"], got["rounds"]) == (40, 20, 20)
  assert (got["drafted"], got["accepted"]) == (44, 24)
  assert got["tokens_per_s"] == pytest.approx(40 / (4 + 4 + 2 + 1))
  assert got["tokens_per_pass"] == got["mean_acceptance_length"] == 2
  assert got["draft_acceptance_rate"] == pytest.approx(6 / 11)
  assert got["emitted_per_round"] == {"1": 8, "2": 8, "4": 4}
  # Four rounds drafted; 3, 2 and 1 of them kept positions 0, 1 and 2.
  assert got["acceptance_per_position"] == [3 / 4, 2 / 4, 1 / 4]
  # Position 1 was judged by the rounds that kept 3, 1 and 2; position 2 by the
  # first alone, for the last one drafted only two.
  assert got["acceptance_per_position_conditional"] == [3 / 4, 2 / 3, 1.0]
  assert got["judged_per_position"] == [16, 12, 4]


def test_a_round_that_a_stop_cut_judges_nothing_further(build, lookup):
  cut = build(lookup, rounds=((3, 1, 1, 4), (3, 1, 2, 4), (3, 2, 3, 4)))
  got = _entry(summarize([cut]), "ngram k=3")["pooled"]
  assert got["acceptance_per_position"] == [1, 1 / 3, 0]
  assert got["acceptance_per_position_conditional"] == [1, 1 / 2, 0]


def test_speedup_is_over_the_answers_that_both_have(run, build, lookup):
  alone = build(lookup, "only here", seconds=1e-3)
  got = _entry(summarize([*run, alone]), "ngram k=3")
  assert got["answers"] == 5
  assert got["speedup"]["n"] == 4
  assert got["speedup"]["estimate"] == pytest.approx(8 ** (1 / 4))
  assert got["speedup"]["mean_of_ratios"] == pytest.approx(2)
  assert got["speedup"]["ratio_of_totals"] == pytest.approx(16 / 11)


def test_repeats_and_turns_are_pooled_inside_a_question(build, plain, lookup):
  answers = []
  for turn, repeat, seconds in ((0, 0, 1.0), (0, 1, 3.0), (1, 0, 4.0)):
    answers.append(build(plain, turn=turn, repeat=repeat, seconds=16.0))
    answers.append(build(lookup, turn=turn, repeat=repeat, seconds=seconds))
  got = _entry(summarize(answers), "ngram k=3")["speedup"]
  assert got["n"] == 1 and got["low"] is None
  assert got["estimate"] == pytest.approx(48 / 8)


def test_twice_the_seconds_halve_speeds_and_leave_the_speedup(run):
  slow = [dataclasses.replace(a, decode_s=2 * a.decode_s) for a in run]
  once, twice = (_entry(summarize(x), "ngram k=3") for x in (run, slow))
  assert twice["pooled"]["tokens_per_s"] == pytest.approx(
    once["pooled"]["tokens_per_s"] / 2
  )
  assert twice["speedup"] == pytest.approx(once["speedup"])


def test_headline_leaves_out_what_flatters_and_counts_it(build, plain, lookup):
  answers = []
  for question, fields, base in (
    ("plain text", {}, {}),
    ("at the limit", {"repeated_8grams": 0.15}, {}),
    ("repeats", {"repeated_8grams": 0.16}, {}),
    ("baseline repeats", {}, {"repeated_8grams": 0.5}),
    ("begun", {"begun": True, "repeated_8grams": 0.9}, {"begun": True}),
  ):
    answers.append(build(plain, question, **base))
    answers.append(build(lookup, question, seconds=0.5, **fields))
  got = _entry(summarize(answers), "ngram k=3")
  head = got["headline"]
  assert (head["answers"], head["left_out"]) == (2, 3)
  assert (head["left_out_begun"], head["left_out_repetitive"]) == (1, 2)
  assert head["speedup"]["n"] == 2 and got["speedup"]["n"] == 5
  assert head["pooled"]["answers"] == 2 and got["pooled"]["repetitive"] == 2


def test_begun_answers_are_rows_of_their_own(build, plain, lookup):
  answers = [
    build(mode, question, begun=begun, category=category)
    for question, begun, category in (
      ("a", False, "copy"),
      ("b", True, "copy"),
      ("c", True, "begun copy"),
      ("d", False, ""),
    )
    for mode in (plain, lookup)
  ]
  got = _entry(summarize(answers), "ngram k=3")["categories"]
  assert {name: row["begun"] for name, row in got.items()} == {
    "copy": False,
    "copy (begun)": True,
    "begun copy": True,
    "no category": False,
  }
  assert all(row["answers"] == row["speedup"]["n"] == 1 for row in got.values())


def test_identity_counts_first_differences(run, build, plain, lookup):
  other = build(lookup, "e", token_ids=(0, 1, 2, 9, 4))
  short = build(lookup, "f", token_ids=(0, 1))
  answers = [*run, build(plain, "e"), other, build(plain, "f"), short]
  entry = _entry(summarize(answers), "ngram k=3")
  got = entry["identity"]
  assert (got["compared"], got["equal"]) == (6, 4)
  assert [(d["question_id"], d["index"]) for d in got["first_difference"]] == [
    ("e", 3),
    ("f", 2),
  ]
  assert got["tokens"] == 40 + 4 + 3
  assert got["near_ties"] is None
  assert entry["verdict"] == "4 of 6 identical"
  ties = {"ngram k=3": {("e", 0, 0), ("f", 0, 0)}}
  entry = _entry(summarize(answers, near_ties=ties), "ngram k=3")
  assert entry["identity"]["near_ties"] == 2
  assert entry["verdict"] == "identical but for 2 near-ties"


def test_a_turn_is_compared_only_after_equal_ones(build, plain, lookup):
  answers = []
  for question, ids in (("same", tuple(range(10))), ("other", (5,))):
    for turn in (1, 0):  # in any order
      answers.append(build(plain, question, turn=turn))
      first = ids if turn == 0 else (8, 8)
      answers.append(build(lookup, question, turn=turn, token_ids=first))
  entry = _entry(summarize(answers), "ngram k=3")
  got = entry["identity"]
  assert (got["compared"], got["equal"]) == (3, 1)
  places = {(d["question_id"], d["turn"]) for d in got["first_difference"]}
  assert places == {("other", 0), ("same", 1)}


def test_the_last_turn_alone_is_begun_and_still_compared(build, plain, lookup):
  answers = [
    build(mode, turn=turn, begun=turn == 1)
    for mode in (plain, lookup)
    for turn in (0, 1)
  ]
  rows = _entry(summarize(answers), "ngram k=3")["categories"]
  assert rows["story (begun)"]["identity"]["compared"] == 1


def test_sampled_tokens_are_compared_for_the_exact_match_rule_only(build):
  warm = Mode("none T", rule="exact_match", lossless=True, temperature=1.0)
  exact = dataclasses.replace(warm, name="exact", drafter="ngram")
  rejection = dataclasses.replace(exact, name="rejection", rule="rejection")
  answers = [build(mode) for mode in (warm, exact, rejection)]
  got = summarize(answers)
  assert _entry(got, "exact")["verdict"] == "identical"
  assert _entry(got, "exact")["law"] == "T=1"
  assert _entry(got, "rejection")["identity"] is None
  assert _entry(got, "rejection")["verdict"] == "lossless by its rule"
  reseeded = [build(warm), build(exact, seed=1)]
  assert _entry(summarize(reseeded), "exact")["identity"] is None


def test_a_lossy_rule_is_called_lossy(build, plain, lookup):
  lossy = dataclasses.replace(lookup, name="lenient", lossless=False)
  got = summarize([build(plain), build(lossy, seconds=0.5)])
  assert _entry(got, "lenient")["verdict"] == "LOSSY, identical"
  assert got["comparisons"][0]["sentence"].startswith("lenient (LOSSY) ran")
  warm = dataclasses.replace(lossy, temperature=0.5, rule="lenience")
  assert _entry(summarize([build(warm)]), "lenient")["verdict"] == "LOSSY"


def test_a_mode_is_compared_at_its_own_law(build, plain, lookup):
  warm = dataclasses.replace(plain, name="none T=1", temperature=1.0)
  warm_lookup = dataclasses.replace(lookup, name="ngram T=1", temperature=1.0)
  cold_only = dataclasses.replace(
    lookup, name="top-p", temperature=1.0, top_p=0.9
  )
  modes = (plain, lookup, warm, warm_lookup, cold_only)
  got = summarize([build(mode) for mode in modes])
  names = [entry["baseline"] for entry in got["modes"]]
  assert names == ["none", "none", "none T=1", "none T=1", None]
  assert got["baseline"] == "none"
  assert _entry(got, "top-p")["speedup"] is None
  pairs = {frozenset((c["a"], c["b"])) for c in got["comparisons"]}
  assert pairs == {
    frozenset(("ngram k=3", "none")),
    frozenset(("ngram T=1", "none T=1")),
  }


def test_a_peer_that_hides_its_rounds_has_no_acceptance(build, plain):
  peer = Mode("hf lookup", "lookup", system="transformers")
  answers = [build(plain), build(peer, rounds=(), token_ids=(0,) * 10)]
  entry = _entry(summarize(answers), "hf lookup")
  assert entry["pooled"]["drafted"] is None
  assert entry["pooled"]["mean_acceptance_length"] is None
  assert entry["pooled"]["tokens_per_pass"] is None
  assert entry["pooled"]["tokens_per_s"] == 10
  assert entry["baseline"] == "none" and entry["speedup"]["n"] == 1


def test_predictions_are_held_against_the_same_answers(build, lookup):
  answers = [
    build(lookup, "a", seconds=2.0, predicted_s=1.8),
    build(lookup, "b", seconds=8.0, predicted_s=8.2),
    build(lookup, "c", seconds=99.0),
  ]
  got = summarize(answers, costs={"ngram k=3": {"bookkeeping": 0.04}})
  (row,) = got["prediction"]
  assert (row["num_speculative_tokens"], row["answers"]) == (3, 2)
  assert row["ratio"] == pytest.approx(1.0)
  entry = _entry(got, "ngram k=3")
  assert entry["pooled"]["predicted_over_measured"] == pytest.approx(1.0)
  assert entry["bookkeeping_share"] == 0.04


def test_the_fastest_is_held_against_the_others(build, plain, lookup):
  fast = dataclasses.replace(lookup, name="fast")
  answers = [
    build(mode, question, seconds=seconds)
    for question in "abc"
    for mode, seconds in ((plain, 4.0), (lookup, 2.0), (fast, 1.0))
  ]
  got = summarize(answers)["comparisons"]
  ratios = {(c["a"], c["b"]): c["ratio"]["estimate"] for c in got}
  assert ratios == pytest.approx(
    {
      ("ngram k=3", "none"): 2,
      ("fast", "none"): 4,
      ("fast", "ngram k=3"): 2,
    }
  )
  assert all(c["scope"] == "headline" and c["n"] == 3 for c in got)


def test_environments_that_vary_are_said_so(build, plain):
  other = {"model": "tiny", "route": "branch"}
  got = summarize([build(plain), build(plain, "b", environment=other)])
  assert got["environment"] == {"model": "tiny"}
  assert got["environment_varies"] == {"route": ["main", "branch"]}


def test_a_summary_is_json_and_never_of_nothing(run):
  got = summarize(run, config={"seed": 1})
  assert json.loads(json.dumps(got)) == got
  with pytest.raises(ValueError, match="no answers"):
    summarize([])
