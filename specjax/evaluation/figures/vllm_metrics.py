"""A run's acceptance as vLLM reports it: log line, counters, requests.

vLLM counts a draft where a request had draft tokens in a step, and its mean
acceptance length is 1 + accepted / drafts. A round that drafted nothing, as
prompt lookup's without a match, counts in neither; in this project's
mean_acceptance_length, emitted / rounds, it counts as one token. The two are
equal only where every round drafted and none was cut. Tokens that a stop cut
off are not accepted here; vLLM counts them.

Names and forms: vllm/v1/spec_decode/metrics.py and vLLM's page "Per-Request
Acceptance Metrics".
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily

from specjax import metrics
from specjax.evaluation.records import Answer, modes

_PREFIX = "vllm:spec_decode_num_"
_COUNTERS = {
  "drafts": "Number of spec decoding drafts.",
  "draft_tokens": "Number of draft tokens.",
  "accepted_tokens": "Number of accepted tokens.",
}
_PER_POSITION = "Accepted tokens per draft position."
_LABELS = ["model_name", "mode"]


def write(answers: Sequence[Answer], folder: Path) -> list[Path]:
  """Writes metrics.prom, vllm.log and requests.jsonl, in place of old ones.

  Modes that drafted nothing, and peers that do not tell their rounds, are in
  none of the first two; in the third their `speculative_decoding` is null.
  """
  texts = {
    "metrics.prom": prometheus(answers),
    "vllm.log": "".join(f"{line}\n" for line in log_lines(answers)),
    "requests.jsonl": "".join(
      json.dumps(request(answer)) + "\n" for answer in answers
    ),
  }
  for name, text in texts.items():
    (folder / name).write_text(text, encoding="utf-8")
  return [folder / name for name in texts]


def prometheus(answers: Sequence[Answer]) -> str:
  """Counters in Prometheus's text format, with labels model_name and mode."""
  registry = CollectorRegistry(auto_describe=False)
  registry.register(_Counters(answers))
  return generate_latest(registry).decode()


def log_lines(answers: Sequence[Answer]) -> list[str]:
  """vLLM's log line of each mode that drafted, its name in brackets before.

  Throughputs are over the seconds of decoding.
  """
  lines = []
  for mode, own, stats in _drafting(answers):
    seconds = sum((answer.decode_s for answer in own), 0.0)
    length = 1 + stats.accepted / stats.drafting_rounds
    rates = ", ".join(f"{r:.3f}" for r in stats.acceptance_per_position)
    lines.append(
      f"INFO [{mode}] SpecDecoding metrics:"
      f" Mean acceptance length: {length:.2f},"
      f" Accepted throughput: {_over(stats.accepted, seconds):.2f} tokens/s,"
      f" Drafted throughput: {_over(stats.drafted, seconds):.2f} tokens/s,"
      f" Accepted: {stats.accepted} tokens,"
      f" Drafted: {stats.drafted} tokens,"
      f" Per-position acceptance rate: {rates},"
      f" Avg Draft acceptance rate: {100 * stats.accepted / stats.drafted:.1f}%"
    )
  return lines


def request(answer: Answer) -> dict[str, Any]:
  """One answer as a request with --per-request-spec-decode-metrics=detailed.

  `acceptance_histogram_by_draft_length` holds, for each draft length k that
  occurred, k + 1 counts of steps by accepted tokens; a tree's length is its
  nodes.
  """
  names = ("question_id", "category", "turn", "repeat")
  return {
    "mode": answer.mode.name,
    **{name: getattr(answer, name) for name in names},
    "usage": {
      "prompt_tokens": answer.prompt_tokens,
      "completion_tokens": answer.new_tokens,
      "total_tokens": answer.prompt_tokens + answer.new_tokens,
    },
    "metrics": {"speculative_decoding": _request_metrics(answer)},
  }


def _request_metrics(answer: Answer) -> dict[str, Any] | None:
  if answer.mode.is_plain or not answer.rounds:
    return None
  steps = [(d, a) for d, a, _, _ in answer.rounds if d]
  drafted, accepted = sum(d for d, _ in steps), sum(a for _, a in steps)
  depth = answer.mode.num_speculative_tokens
  by_length: dict[str, list[int]] = {}
  for length, kept in sorted(steps):
    by_length.setdefault(str(length), [0] * (length + 1))[kept] += 1
  kept_counts = Counter(a for _, a in steps)
  return {
    "mean_acceptance_length": 1 + accepted / len(steps) if steps else None,
    "draft_acceptance_rate": accepted / drafted if steps else None,
    "acceptance_histogram": [kept_counts[n] for n in range(depth + 1)],
    "acceptance_histogram_by_draft_length": by_length,
    "num_spec_steps": len(steps),
    "num_accepted_draft_tokens": accepted,
    "num_draft_tokens": drafted,
    "num_spec_tokens": depth,
    "per_step_accepted": [a for _, a in steps],
    "per_step_drafted": [d for d, _ in steps],
  }


class _Counters:
  """A collector, for these counters have no time of creation to tell."""

  def __init__(self, answers: Sequence[Answer]):
    self._answers = answers

  def collect(self) -> Iterator[CounterMetricFamily]:
    families = {
      name: CounterMetricFamily(_PREFIX + name, help_text, labels=_LABELS)
      for name, help_text in _COUNTERS.items()
    }
    per_position = CounterMetricFamily(
      f"{_PREFIX}accepted_tokens_per_pos",
      _PER_POSITION,
      labels=[*_LABELS, "position"],
    )
    for mode, own, stats in _drafting(self._answers):
      labels = [str(own[0].environment.get("model", "")), mode]
      families["drafts"].add_metric(labels, stats.drafting_rounds)
      families["draft_tokens"].add_metric(labels, stats.drafted)
      families["accepted_tokens"].add_metric(labels, stats.accepted)
      for position, kept in enumerate(stats.accepted_at):
        per_position.add_metric([*labels, str(position)], kept)
    yield from families.values()
    yield per_position


def _drafting(
  answers: Sequence[Answer],
) -> Iterator[tuple[str, list[Answer], metrics.Stats]]:
  """(mode, its answers with known rounds, their figures), where it drafted."""
  for mode in modes(answers):
    own = [a for a in answers if a.mode.name == mode.name and a.rounds]
    stats = metrics.pool([answer.stats for answer in own])
    if stats.drafted:
      yield mode.name, own, stats


def _over(part: int, whole: float) -> float:
  return part / whole if whole else 0.0
