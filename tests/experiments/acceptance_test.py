"""The acceptance command: what it prints and writes, and what it refuses."""

import json

import pytest

from experiments import acceptance

# How ml_collections loads a config.
pytestmark = pytest.mark.filterwarnings(
  "ignore:the load_module:DeprecationWarning"
)

SMALL = ("--max_new_tokens=12", "--gammas=1")
PROMPT = "--prompt=abcabcabc"
SIZES = """
from configs import acceptance

def get_config():
  config = acceptance.get_config()
  config.update({changes!r})
  return config
"""


@pytest.fixture
def call(run, tiny, tmp_path):
  """Calls the command on the tiny model, with fields of its config changed."""

  def call(*argv, **changes):
    file = tmp_path / "sizes.py"
    changes = {"turns": 1, "rates": (0.5,), **changes}
    file.write_text(SIZES.format(changes=changes))
    given = (f"--config={file}", f"--model={tiny}", PROMPT, *argv)
    return run(acceptance.main, *given)

  return call


def test_a_study_of_lookup(call, tmp_path):
  argv = (*SMALL, "--drafter=ngram", "--temperatures=0,1", "--json")
  argv += ("--gammas=1,3", f"--output={tmp_path / 'out'}")
  got = call(*argv)
  assert got.status == 0, got.err
  (result,) = got.records
  assert result["rule"] == "exact_match" and result["lossless"]
  assert (
    json.loads((tmp_path / "out" / "acceptance.json").read_text()) == result
  )
  assert (tmp_path / "out" / "acceptance.png").stat().st_size > 10_000
  assert (tmp_path / "out" / "costs.jsonl").read_text().count("\n") > 10
  assert set(result["costs"]["pass_s"]) == {"1", "2", "3", "4"}
  assert set(result["costs"]["draft_s"]) == {"0", "1", "2", "3"}
  greedy, sampled = result["temperatures"]
  assert (greedy["temperature"], sampled["temperature"]) == (0, 1)
  for part in (greedy, sampled):
    alpha = part["alpha"]
    assert 0 < alpha["positions"] <= 12
    assert 0 <= alpha["share_proposed"] <= 1
    lengths = [e["num_speculative_tokens"] for e in part["lengths"]]
    assert lengths == [1, 3]
    assert all(e["speedup"] > 0 and e["ratio"] > 0 for e in part["lengths"])
    assert len(part["acceptance_per_position"]) == len(part["positions"]) <= 3
  # Greedy laws are points: entropy is 0, and alpha is the agreement.
  assert greedy["alpha"]["entropy_nats"] == 0 < sampled["alpha"]["entropy_nats"]
  assert greedy["alpha"]["alpha"] == greedy["alpha"]["greedy_agreement"]
  again = call(*argv)
  assert again.status == 1 and "already holds acceptance.json" in again.err


def test_a_study_of_a_tree(call, tmp_path):
  tree = "--drafter=model_tree tree=expand:2x1 draft_layers=2"
  argv = ("--max_new_tokens=12", tree, "--temperatures=0", "--json")
  got = call(*argv, f"--output={tmp_path / 'out'}")
  assert got.status == 0, got.err
  (result,) = got.records
  saved = json.loads((tmp_path / "out" / "acceptance.json").read_text())
  assert saved == result
  assert (tmp_path / "out" / "acceptance.png").stat().st_size > 10_000
  assert (result["num_nodes"], result["max_depth"]) == (4, 2)
  (part,) = result["temperatures"]
  # The draft is the target, so that every first child is kept.
  assert part["mean_acceptance_length"] == 3.0
  assert [rank["kept"] for rank in part["ranks"]] == [
    part["ranks"][0]["tried"]
  ] + [0] * (len(part["ranks"]) - 1)
  assert [line["tokens"] for line in part["trees"]][:3] == [2.0, 3.0, 3.0]
  assert part["best"]["predicted_speedup"] >= 1.0
  got = call(*argv[:2])
  assert got.status == 0 and "children of a kept node" in got.out
  assert "has no draft length to vary" in call(*argv, "--gammas=2").err


def test_a_draft_of_all_layers_is_always_accepted(call):
  draft = ("--drafter=model", "--draft_layers=2")
  got = call(*SMALL, *draft, "--temperatures=1")
  assert got.status == 0, got.err
  assert "alpha 1.000 by teacher forcing" in got.out
  assert "rule rejection (lossless)" in got.out


def test_a_sweep(call, tmp_path):
  got = call(*SMALL, "--sweep", f"--output={tmp_path}")
  assert got.status == 0, got.err
  assert "measured over predicted" in got.out and "synthetic 0.5" in got.out
  result = json.loads((tmp_path / "prediction.json").read_text())
  assert len(result["cases"]) == 3
  assert (tmp_path / "prediction.png").exists()


@pytest.mark.parametrize(
  "argv, message",
  [
    ((), "proposes nothing"),
    (("--drafter=ngram", "--gammas=0..3"), "gammas must be like 1..8"),
    (("--drafter=ngram", "--gammas=x"), "gammas must be like 1..8"),
    (("--drafter=ngram", "--temperatures=a"), "must be numbers, got 'a'"),
    (("--drafter=ngram", "--temperatures=-1"), "must be 0 or more"),
    (("--drafter=ngram", "--temperature=1"), "takes --temperatures"),
    (("--drafter=ngram", "--num_speculative_tokens=3"), "--gammas=1..8"),
    (("--drafter=ngram", "--stop=x"), "no stop strings"),
    (("--drafter=model",), "needs either a draft model"),
    (("--sweep", "--drafter=ngram"), "leave out --drafter"),
    (("--drafter=ngram", "--prompt_file=missing.jsonl"), "missing.jsonl"),
    (("--drafter=ngram", "--max_new_tokens=90"), "takes 96, answer of 90"),
  ],
)
def test_a_wrong_call_is_one_line(call, argv, message):
  got = call(*argv)
  assert got.status == 1 and got.out == ""
  line = got.err.splitlines()[-1]
  assert line.startswith("error: ") and message in line


def test_wrong_sizes_are_refused(call):
  got = call("--drafter=ngram", turns=0)
  assert got.status == 1 and "turns must be at least 1" in got.err
  got = call("--sweep", rates=(1.0,))
  assert got.status == 1 and "rates must be in [0, 1)" in got.err


@pytest.mark.parametrize(
  "text, lengths",
  [("1..4", (1, 2, 3, 4)), ("4,1,4", (1, 4)), ("3", (3,)), ("2..2", (2,))],
)
def test_lengths_are_read(text, lengths):
  assert acceptance.parse_lengths(text) == lengths
