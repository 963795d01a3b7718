"""vLLM's figures: its published example, its names, its log line."""

import dataclasses
import json
import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from specjax.evaluation.figures import vllm_metrics

# As in vLLM's log, names and punctuation of vllm/v1/spec_decode/metrics.py.
LINE = re.compile(
  r"SpecDecoding metrics: Mean acceptance length: ([\d.]+),"
  r" Accepted throughput: ([\d.]+) tokens/s,"
  r" Drafted throughput: ([\d.]+) tokens/s,"
  r" Accepted: (\d+) tokens, Drafted: (\d+) tokens,"
  r" Per-position acceptance rate: ([\d., ]+),"
  r" Avg Draft acceptance rate: ([\d.]+)%$"
)
PREFIX = "vllm:spec_decode_num_"


def _steps(*histogram):
  """Rounds that drafted 3 tokens: histogram[j] of them kept j."""
  return [
    (3, kept, kept + 1, 4)
    for kept, count in enumerate(histogram)
    for _ in range(count)
  ]


def test_the_documented_request(build, lookup):
  """The example of vLLM's page "Per-Request Acceptance Metrics"."""
  silent = [(0, 0, 1, 1)] * 5  # a round without a draft is no step there
  answer = build(lookup, rounds=[*_steps(39, 1, 0, 3), *silent])
  got = vllm_metrics.request(answer)["metrics"]["speculative_decoding"]
  documented = {
    "mean_acceptance_length": 1.2325581395348837,
    "draft_acceptance_rate": 0.07751937984496124,
    "acceptance_histogram": [39, 1, 0, 3],
    "num_spec_steps": 43,
    "num_accepted_draft_tokens": 10,
    "num_draft_tokens": 129,
    "num_spec_tokens": 3,
  }
  assert {name: got[name] for name in documented} == documented
  assert got["per_step_drafted"] == [3] * 43
  assert got["per_step_accepted"] == [0] * 39 + [1] + [3] * 3
  assert answer.stats.mean_acceptance_length != got["mean_acceptance_length"]


def test_steps_of_different_lengths_are_kept_apart(build, lookup):
  """(drafted, accepted) = (1, 1), (3, 2) against (2, 1), (2, 2)."""
  kept = []
  for steps in (((1, 1), (3, 2)), ((2, 1), (2, 2))):
    answer = build(lookup, rounds=[(d, a, a + 1, 4) for d, a in steps])
    kept.append(vllm_metrics.request(answer)["metrics"]["speculative_decoding"])
  name = "acceptance_histogram_by_draft_length"
  assert kept[0]["acceptance_histogram"] == kept[1]["acceptance_histogram"]
  assert kept[0][name] == {"1": [0, 1], "3": [0, 0, 1, 0]}
  assert kept[1][name] == {"2": [0, 1, 1]}


def test_requests_without_drafts(build, plain, lookup):
  metrics = vllm_metrics.request(build(plain))["metrics"]
  assert metrics["speculative_decoding"] is None
  silent = build(lookup, rounds=[(0, 0, 1, 1)] * 3)
  got = vllm_metrics.request(silent)["metrics"]["speculative_decoding"]
  assert got["acceptance_histogram"] == [0, 0, 0, 0]
  assert got["num_spec_steps"] == 0 and got["draft_acceptance_rate"] is None


def test_log_line(build, plain, lookup):
  answers = [build(plain), build(lookup, seconds=2.0), build(lookup, "b")]
  (line,) = vllm_metrics.log_lines(answers)
  assert line.startswith("INFO [ngram k=3] ")
  # Twice 6 of 11 tokens in 4 drafts, in 3 seconds.
  assert LINE.search(line).groups() == (
    *("2.50", "4.00", "7.33", "12", "22"),
    *("0.750, 0.500, 0.250", "54.5"),
  )


def test_counters_are_parsed_and_answer_the_three_queries(build, plain, lookup):
  other = dataclasses.replace(lookup, name='odd "name"\\')
  answers = [build(plain), build(lookup), build(lookup, "b"), build(other)]
  text = vllm_metrics.prometheus(answers)
  families = {f.name: f for f in text_string_to_metric_families(text)}
  suffixes = ("drafts", "draft_tokens", "accepted_tokens")
  names = [PREFIX + suffix for suffix in suffixes]
  assert set(families) == {*names, f"{PREFIX}accepted_tokens_per_pos"}
  assert all(family.type == "counter" for family in families.values())
  samples = [s for f in families.values() for s in f.samples]
  assert {s.labels["mode"] for s in samples} == {"ngram k=3", other.name}
  assert {s.labels["model_name"] for s in samples} == {"tiny"}
  value = {
    (s.name, s.labels.get("position")): s.value
    for s in samples
    if s.labels["mode"] == "ngram k=3"
  }
  drafts, drafted, accepted = (value[f"{n}_total", None] for n in names)
  assert (drafts, drafted, accepted) == (8, 22, 12)
  assert 1 + accepted / drafts == pytest.approx(2.5)
  per_position = f"{PREFIX}accepted_tokens_per_pos_total"
  rates = [value[per_position, str(i)] / drafts for i in range(3)]
  assert rates == [0.75, 0.5, 0.25]


def test_files(tmp_path, build, plain, lookup):
  answers = [build(plain), build(lookup)]
  files = vllm_metrics.write(answers, tmp_path)
  names = [file.name for file in files]
  assert names == ["metrics.prom", "vllm.log", "requests.jsonl"]
  before = [file.read_bytes() for file in files]
  vllm_metrics.write(answers, tmp_path)
  assert [file.read_bytes() for file in files] == before
  lines = files[2].read_text().splitlines()
  assert [json.loads(line)["mode"] for line in lines] == ["none", "ngram k=3"]
