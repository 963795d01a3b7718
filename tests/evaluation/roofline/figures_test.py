"""Cases by name, and their figures against printed and closed ones."""

import dataclasses
import json

import numpy as np
import pytest

from specjax.evaluation.roofline import cases, figures, recorded, study
from specjax.evaluation.roofline.cases import Acceptance
from specjax.models.presets import PRESETS
from specjax.theory import rounds, shapes, speedup

QUICK = ((1, 4096), (2048,), 3)


def test_figures_of_the_default(ask):
  """Printed: 1.94, 311 against 160, 2.63, 26 %, 2.06; 98 % idle."""
  found = figures.figures(ask().case)
  printed = {
    "speedup": 1.94,
    "tokens_per_second": 311,
    "plain_tokens_per_second": 160,
    "mean_acceptance_length": 2.63,
    "draft_share": 0.26,
    "operations_factor": 2.06,
  }
  for name, value in printed.items():
    assert found[name] == pytest.approx(value, rel=0.035), name
  verify = found["verify"]
  assert verify["bytes"] / 2**30 == pytest.approx(15.6, abs=0.05)
  assert verify["operations"] / 1e12 == pytest.approx(0.09, abs=0.005)
  assert verify["memory_seconds"] == pytest.approx(6.23e-3, rel=1e-3)
  assert verify["arithmetic_seconds"] == pytest.approx(0.12e-3, abs=5e-6)
  assert verify["idle_share"] == pytest.approx(0.98, abs=0.005)
  line = study.log_line(found)
  assert line.startswith("SpecDecoding metrics: Mean acceptance length: 2.61,")
  assert "Per-position acceptance rate: 0.750, 0.478, 0.259, 0.119," in line


@pytest.mark.parametrize("rows, idle", [(32, 62), (64, 45), (1024, 5)])
def test_printed_idle_shares(ask, rows, idle):
  found = figures.figures(ask(concurrency=rows).case)
  assert 100 * found["verify"]["idle_share"] == pytest.approx(idle, abs=1)


def test_a_full_batch_without_weights_is_theorem_3_8(ask):
  """One row, constant acceptance, nothing bound by arithmetic: c = 0."""
  found = figures.figures(
    ask(drafters=("ngram",), shape="constant", load="full").case
  )
  expected = float(speedup.tokens_per_pass(0.75, 4))
  assert found["speedup"] == pytest.approx(expected)
  assert found["row_speedup"] == found["speedup"]
  assert found["operations_factor"] == pytest.approx(
    float(speedup.operations_factor(0.75, 4))
  )
  assert found["drafts"] * expected == pytest.approx(256)
  assert found["judged_acceptance_rate"] == pytest.approx(0.75)
  assert found["draft"]["seconds"] == 0 and found["draft"]["idle_share"] is None


def test_capacity_by_hand(ask):
  """90 % of 80 GB, 2 bytes a weight, 144 and 112 KiB a token of 2,304."""
  found = figures.capacity(ask().case)
  room = 0.9 * 80e9 - 2 * 8_190_735_360
  assert found["plain_batch"] == room // (2304 * 144 * 1024)
  room -= 2 * 596_049_920
  assert found["batch"] == room // (2304 * 256 * 1024)
  assert found["speedup"] == pytest.approx(
    found["tokens_per_second"] / found["plain_tokens_per_second"]
  )
  crowded = figures.capacity(ask(target="qwen2.5-72b").case)
  assert crowded["batch"] == 0 and crowded["speedup"] is None


def test_drafters_by_name():
  sizes = PRESETS["qwen3-8b"]
  assert cases.drafter_of("ngram", sizes) == rounds.lookup()
  head = cases.drafter_of("head", sizes)
  assert head.model == shapes.head_of(sizes) and head.cached
  kept = cases.drafter_of("self:512", sizes)
  assert (kept.longest_context, kept.stored) == (512, 0)
  own = cases.drafter_of("Qwen/Qwen3-0.6B", sizes)
  assert own == rounds.separate(shapes.shape_of(PRESETS["qwen3-0.6b"]))


def test_a_shape_of_a_config(tmp_path):
  raw = {
    "model_type": "llama",
    "vocab_size": 100,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
  }
  (tmp_path / "config.json").write_text(json.dumps(raw))
  sizes = cases.sizes_of(str(tmp_path))
  assert (sizes.num_layers, sizes.head_dim) == (3, 4)
  drafter = cases.drafter_of(str(tmp_path), PRESETS["qwen3-8b"])
  assert drafter.model == shapes.shape_of(sizes)
  raw["model_type"] = "mamba"
  (tmp_path / "config.json").write_text(json.dumps(raw))
  with pytest.raises(ValueError, match="config.json: model_type 'mamba'"):
    cases.sizes_of(str(tmp_path))


@pytest.mark.parametrize(
  "changes, error",
  [
    (dict(target="gpt-9"), "no preset 'gpt-9'"),
    (dict(drafters=("oracle",)), "no drafter 'oracle'"),
    (dict(drafters=("self:0",)), "must be self:TOKENS"),
    (dict(drafters=("ngram", "ngram")), "named twice"),
    (dict(drafters=()), "no drafter is named"),
    (dict(device="abacus"), "unknown device 'abacus'"),
    (dict(chips=0), "chips must be at least 1"),
    (dict(acceptance=1.5), r"acceptance must be in \[0, 1\]"),
    (dict(gamma=0), "gamma must be at least 1"),
    (dict(concurrency=0), "batch must be at least 1"),
    (dict(weight_bits=0.0), "weight_bits must be in"),
    (dict(bandwidth_share=2.0), "bandwidth_share must be in"),
    (dict(load="half"), "load is drains or full"),
    (dict(shape="rising"), "shape is constant or falling"),
    (dict(acceptance_from="nowhere"), "no records at nowhere"),
  ],
)
def test_what_is_refused(ask, changes, error):
  with pytest.raises(ValueError, match=error):
    ask(**changes)


def test_rates_of_records(build, lookup):
  """Half of the rounds propose nothing, and count as refusals."""
  rounds_of = [(3, 3, 4, 4), (3, 1, 2, 4), (0, 0, 1, 1), (0, 0, 1, 1)] * 15
  answers = [build(lookup, "q", rounds_of)]
  found = recorded.of_answers(answers)["ngram k=3"]
  # Position 1 is kept in both that drafted, 2 and 3 in half and all of those.
  assert found == (0.5, 0.5)  # position 3 was judged 15 times
  assert recorded.of_answers([build(lookup, "q", rounds_of * 2)]) == {
    "ngram k=3": (0.5, 0.5, 1.0)
  }
  tokens = 1 + np.cumprod((0.5, 0.5, 1.0)).sum()
  assert tokens == pytest.approx(np.mean([4, 2, 1, 1]))
  assert recorded.of_answers([build(lookup, "q", [(0, 0, 1, 1)] * 99)]) == {}


def test_a_question_of_records(ask, build, lookup, tmp_path):
  from specjax.evaluation import records

  path = tmp_path / records.FILE
  answer = build(lookup, "q", [(3, 3, 4, 4), (3, 0, 1, 4)] * 40)
  records.append(path, answer.to_json())
  own = dict(acceptance_from=str(tmp_path), drafters=("ngram",))
  asked = ask(**own, gamma=2)
  assert asked.case.acceptance.recorded == (0.5, 1.0, 1.0)
  assert asked.case.conditional == (0.5, 1.0)
  with pytest.raises(ValueError, match="recorded for 3 positions, not for"):
    ask(**own, gamma=4)
  with pytest.raises(ValueError, match="no 'x': name a mode.*ngram k=3"):
    ask(**own, gamma=2, mode="x")


def test_a_study(ask):
  asked = ask(concurrency=64, drafters=("qwen3-0.6b", "ngram"), gamma=2)
  found = study.study(asked, *QUICK)
  assert [row["value"] for row in found["batch"]] == [1, 64, 4096]
  assert [row["fits"] for row in found["batch"]] == [True, True, False]
  assert [row["value"] for row in found["gamma"]] == [1, 2, 3]
  at = found["batch"][1]
  assert at["speedup"] == found["figures"]["speedup"]
  ngram = found["drafters"]["ngram"]
  case = dataclasses.replace(asked.with_drafter("ngram"), gamma=3)
  assert ngram["gamma"][2] == figures.figures(case)["speedup"]
  assert found["best_gamma"][0] == 3  # of 1 to 3
  assert found["best_gamma"][2] == 0
  assert set(found["capacity"]) == {"qwen3-0.6b", "ngram"}


def test_acceptance_in_words():
  assert Acceptance(0.7, 1.0).describe() == "0.7 at every position"
  assert Acceptance().describe() == "0.75, falling by 0.85 a position"
  assert Acceptance(recorded=(0.5,)).describe() == "recorded 0.500"
  with pytest.raises(ValueError, match="needs a position"):
    Acceptance(recorded=())
