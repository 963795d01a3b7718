"""Figures of several answers of one mode together."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from specjax import metrics
from specjax.evaluation.records import Answer

# Outputs that repeat more of their 8-grams than this flatter lookup.
REPETITIVE = 0.15


def pool(answers: Sequence[Answer]) -> dict[str, Any]:
  """Sums over the answers, and the ratios of these sums.

  Returns:
    answers, questions: how many.
    repetitive: answers with more than 15 % of their 8-grams repeated.
    new_tokens, passes: tokens emitted, and target passes.
    rounds, drafted, accepted, drafting_rounds: of the answers whose rounds are
      known; None where none are, as a peer's may not be.
    tokens_per_s: new_tokens over decode_s: neither prefill nor compilation.
    tokens_per_pass: new_tokens over passes.
    mean_acceptance_length: emitted over rounds.
    draft_acceptance_rate: accepted over drafted; None where nothing was.
    acceptance_per_position: share of the rounds that drafted in which position
      i was kept.
    acceptance_per_position_conditional: share of the rounds that judged
      position i in which it was kept; None where none did.
    judged_per_position: rounds that judged position i; see `metrics.judged`.
    emitted_per_round: {tokens: rounds that emitted so many}, keys as text.
    compile_s, prefill_s, decode_s: seconds.
    predicted_s, predicted_over_measured: seconds predicted, and over the
      decode_s of the same answers; None where none has a prediction.
    unexplained_share: 1 - predicted_over_measured: what of decoding neither
      drafting nor target passes take, by the separate calls' times.
  """
  known = [answer for answer in answers if answer.rounds]
  stats = metrics.pool([answer.stats for answer in known]) if known else None
  predicted = [answer for answer in answers if answer.predicted_s is not None]
  new_tokens = sum(answer.new_tokens for answer in answers)
  passes = sum(answer.passes for answer in answers)
  decode_s = sum(answer.decode_s for answer in answers)
  predicted_s = sum(answer.predicted_s or 0.0 for answer in predicted)
  ratio = _over(predicted_s, sum(answer.decode_s for answer in predicted))
  return {
    "answers": len(answers),
    "questions": len({answer.question_id for answer in answers}),
    "repetitive": sum(is_repetitive(answer) for answer in answers),
    "new_tokens": new_tokens,
    "passes": passes,
    **_of_rounds(stats),
    **_conditional(known, stats),
    "tokens_per_s": _over(new_tokens, decode_s),
    "tokens_per_pass": _over(new_tokens, passes),
    "compile_s": sum(answer.compile_s for answer in answers),
    "prefill_s": sum(answer.prefill_s for answer in answers),
    "decode_s": decode_s,
    "predicted_s": predicted_s if predicted else None,
    "predicted_over_measured": ratio,
    "unexplained_share": None if ratio is None else 1 - ratio,
  }


def _of_rounds(stats: metrics.Stats | None) -> dict[str, Any]:
  if stats is None:
    return {
      "rounds": None,
      "drafted": None,
      "accepted": None,
      "drafting_rounds": None,
      "mean_acceptance_length": None,
      "draft_acceptance_rate": None,
      "acceptance_per_position": None,
      "emitted_per_round": None,
    }
  counts = Counter(stats.accept_lengths)
  return {
    "rounds": stats.rounds,
    "drafted": stats.drafted,
    "accepted": stats.accepted,
    "drafting_rounds": stats.drafting_rounds,
    "mean_acceptance_length": stats.mean_acceptance_length,
    "draft_acceptance_rate": stats.draft_acceptance_rate,
    "acceptance_per_position": list(stats.acceptance_per_position),
    "emitted_per_round": {str(n): counts[n] for n in sorted(counts)},
  }


def _conditional(
  answers: Sequence[Answer], stats: metrics.Stats | None
) -> dict[str, Any]:
  names = ("acceptance_per_position_conditional", "judged_per_position")
  if stats is None:
    return dict.fromkeys(names)
  rounds = [one for answer in answers for one in answer.rounds]
  rates, judged = metrics.judged(rounds, len(stats.accepted_at))
  return dict(zip(names, (rates, judged), strict=True))


def is_repetitive(answer: Answer) -> bool:
  """Whether its output repeats so much that it flatters lookup."""
  return answer.repeated_8grams > REPETITIVE


def _over(part: float | int, whole: float | int) -> float | None:
  return part / whole if whole else None
