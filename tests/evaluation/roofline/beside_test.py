"""What was measured beside what the roofline says, of the same answers."""

import pathlib

import numpy as np
import pytest

from configs import roofline as config
from specjax.evaluation import records
from specjax.evaluation.figures import summary
from specjax.evaluation.records import Mode
from specjax.evaluation.roofline import beside, figures, question, round_tokens

K = 2
DRAFT = Mode(
  "model k=2", "model", "rejection", True, K, options={"draft_layers": 3}
)
ENVIRONMENT = {"model": "smollm2-135m", "device": "cpu", "dtype": "float32"}


@pytest.fixture
def run(build, plain, tmp_path):
  """Twelve prompts of chat that differ, and others that do not count."""
  rng = np.random.default_rng(0)

  def add(mode, question, rounds, seconds, **fields):
    answer = build(
      mode, question, rounds, seconds, environment=ENVIRONMENT, **fields
    )
    records.append(tmp_path / records.FILE, answer.to_json())

  for i in range(12):
    kept = rng.binomial(K, 0.3 + 0.04 * i, 40)
    rounds = [(K, int(n), int(n) + 1, K + 1) for n in kept]
    repeats = {"repeated_8grams": 0.5}
    begun = {"begun": True}
    for number, (name, ours, theirs) in enumerate(
      (
        ("chat", {}, {}),
        ("story", repeats if i % 2 else {}, {} if i % 2 else repeats),
        ("chat", begun, begun),
      )
    ):
      if number:
        rounds = [(K, 0, 1, K + 1)] * 40
      question, seconds = f"{number} {i}", 1.0 + 0.01 * i
      add(DRAFT, question, rounds, seconds, category=name, **ours)
      add(plain, question, None, 0.3, category=name, **theirs)
  return str(tmp_path)


def compare(folder, devices=("h100", "tpu-v4"), batches=(1, 32), **changes):
  lengths = {
    name: changes.pop(name)
    for name in ("context", "new_tokens")
    if name in changes
  }
  own = dict(target=None, drafters=None, gamma=None, acceptance_from=folder)
  settings = {**config.get_config().to_dict(), **own, **changes}
  return beside.compare(settings, devices, batches, **lengths)


def test_measured_is_the_reports_row(run):
  """Of a class, its row; of all, the headline."""
  table = summary.summarize(records.read(pathlib.Path(run)))
  (entry,) = [e for e in table["modes"] if e["mode"]["name"] == DRAFT.name]
  for categories, part in (
    (("chat",), entry["categories"]["chat"]),
    ((), entry["headline"]),
  ):
    (one,) = compare(run, categories=categories)["modes"]
    assert part["speedup"] is not None and one["answers"] == part["answers"]
    for name, value in part["speedup"].items():
      assert one["measured"][name] == value, name
    tokens = one["tokens_per_round"]["estimate"]
    assert tokens == pytest.approx(part["pooled"]["mean_acceptance_length"])
  assert one["measured"]["device"] == "cpu" and one["prompts"] == 12
  assert one["measured"]["batches"] == [1]


def test_predicted_is_what_the_study_says_of_a_full_device(run):
  found = compare(run, categories=("chat",), context=512, new_tokens=64)
  (one,) = found["modes"]
  assert (found["target"], one["draft"]) == ("smollm2-135m", "layers:3")
  rows = {(row["device"], row["batch"]): row for row in one["predicted"]}
  assert list(rows) == [
    (device, batch) for device in ("h100", "tpu-v4") for batch in (1, 32)
  ]
  given = {**config.get_config().to_dict(), "categories": ("chat",)}
  given |= dict(target=None, drafters=None, gamma=None, acceptance_from=run)
  given |= dict(context=512, new_tokens=64, load="full")
  for (device, batch), row in rows.items():
    asked = question.ask({**given, "device": device, "concurrency": batch})
    wanted = figures.figures(asked.case)
    assert row["estimate"] == pytest.approx(wanted["speedup"])
    assert row["draft_share"] == pytest.approx(wanted["draft_share"])
    cost = wanted["draft"]["seconds"] / wanted["plain"]["seconds"]
    assert row["draft_cost"] == pytest.approx(cost)
    assert row["fits"]


def test_the_interval_is_that_of_the_tokens(run):
  (one,) = compare(run, categories=("chat",))["modes"]
  tokens = one["tokens_per_round"]
  assert tokens["n"] == 12 and tokens["low"] < tokens["estimate"]
  for row in one["predicted"]:
    for end in ("low", "high"):
      share = row[end] / row["estimate"]
      assert share == pytest.approx(tokens[end] / tokens["estimate"])


def test_the_interval_is_a_bootstrap_over_prompts(build):
  """Near the percentiles of resampled prompts, whose sums are pooled."""
  rng = np.random.default_rng(1)
  answers = []
  for i in range(60):
    kept = rng.binomial(K, rng.uniform(0.2, 0.9), 30)
    rounds = [(K, int(n), int(n) + 1, K + 1) for n in kept]
    answers.append(build(DRAFT, f"q{i}", rounds))
  counts = round_tokens.count(answers, K)
  found = round_tokens.per_round(counts)
  drawn = rng.integers(60, size=(4000, 60))
  sums = counts[drawn].sum(1)
  tokens = 1 + round_tokens.kept(sums).sum(-1)
  low, high = np.quantile(tokens, [0.025, 0.975])
  width = high - low
  assert found.low == pytest.approx(low, abs=0.1 * width)
  assert found.high == pytest.approx(high, abs=0.1 * width)
  emitted = sum(a.new_tokens for a in answers) / (60 * 30)
  assert found.estimate == pytest.approx(emitted)


def test_rounds_without_a_draft_are_refusals(build):
  rounds = [(2, 2, 3, 3), (2, 1, 2, 3), (0, 0, 1, 1), (0, 0, 1, 1)] * 10
  counts = round_tokens.count([build(DRAFT, "q", rounds)], K)
  np.testing.assert_allclose(counts, [[40, 20, 20, 10, 20, 20]])
  np.testing.assert_allclose(round_tokens.kept(counts), [[0.5, 0.25]])
  one = round_tokens.per_round(counts)
  assert (one.estimate, one.low, one.n) == (pytest.approx(1.75), None, 1)


def test_modes_that_cannot_be_compared(run, build, tmp_path):
  mine = Mode("mine", "package.module:Mine", "rejection", True, K)
  answer = build(
    mine,
    "0 0",
    [(K, 1, 2, 3)] * 40,
    category="chat",
    environment=ENVIRONMENT,
  )
  records.append(tmp_path / records.FILE, answer.to_json())
  found = compare(run, categories=("chat",))
  assert [one["mode"] for one in found["modes"]] == [DRAFT.name]
  assert found["left_out"][0]["mode"] == "mine"
  with pytest.raises(ValueError, match="nothing of .* mine: what"):
    compare(run, categories=("chat",), mode="mine")
  (one,) = compare(run, mode="mine", drafters=("head",))["modes"]
  assert one["draft"] == "head" and one["measured"]["n"] == 1
  assert one["measured"]["low"] is None and one["predicted"][0]["low"] is None


def test_a_run_without_plain_decoding(build, tmp_path):
  answer = build(DRAFT, "q", [(K, 1, 2, 3)] * 40, environment=ENVIRONMENT)
  records.append(tmp_path / records.FILE, answer.to_json())
  (one,) = compare(str(tmp_path))["modes"]
  assert one["measured"] is None and len(one["predicted"]) == 4
  assert one["context"] == 7 and one["new_tokens"] == 80


def test_a_device_or_batch_that_is_none(run):
  with pytest.raises(ValueError, match="unknown device 'abacus'"):
    compare(run, devices=("abacus",))
  with pytest.raises(ValueError, match="a batch must be at least 1"):
    compare(run, batches=(0,))
