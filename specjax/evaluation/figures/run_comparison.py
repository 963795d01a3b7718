"""Two runs side by side: modes of one name on the same prompts."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from specjax.evaluation.figures import paired, statistics
from specjax.evaluation.figures.paired import Pair
from specjax.evaluation.figures.pooling import pool
from specjax.evaluation.figures.statistics import Estimate
from specjax.evaluation.figures.wording import law_name
from specjax.evaluation.records import Answer, Mode, modes


def compare(
  a: Sequence[Answer],
  b: Sequence[Answer],
  tag: str = "route",
  threshold: float = 0.0,
) -> dict[str, Any]:
  """What changed from run A to run B.

  Answers are joined by mode, question, turn and repeat; two of them whose
  prompts differ are not compared, only counted.

  Args:
    tag: field of the environment; each of its values that both runs have is
      compared by itself, and where they have none in common, all of A's
      answers with all of B's.
    threshold: least fall of the acceptance rate that is flagged.

  Returns:
    only_in_a, only_in_b: names of modes.
    other_prompts: answers left out, their prompts being different.
    modes: a list of {
      mode, law, tag: the mode's name, its law, and "value" or "A's -> B's".
      answers, questions: joined.
      a, b: {speedup (over the run's own baseline, see `statistics.Speedup`),
        draft_acceptance_rate, mean_acceptance_length, tokens_per_s,
        tokens_per_pass, drafted}.
      speedup_ratio: the speedup in B over that in A, question by question.
      acceptance_difference: rate in B minus rate in A, an interval over
        questions; None where either drafted nothing.
      identity: of B's token ids with A's; see `paired.identity`.
      fell: whether the whole interval of the difference lies below 0 and the
        rate fell by the threshold or more.
    }
    fell: "mode (tag)" of the flagged ones.

  Raises:
    ValueError: the runs have no answer in common, or no answer has the tag.
  """
  for answer in (*a, *b):
    if tag not in answer.environment:
      raise ValueError(f"the environment of an answer has no {tag!r}")
  in_a, in_b = modes(a), modes(b)
  names_b = {mode.name: mode for mode in in_b}
  rows, other = [], 0
  for mode in in_a:
    if mode.name not in names_b:
      continue
    own_a = [x for x in a if x.mode.name == mode.name]
    own_b = [x for x in b if x.mode.name == mode.name]
    for label, part_a, part_b in _by_tag(own_a, own_b, tag):
      joined = paired.join(part_a, part_b)
      pairs = [(x, y) for x, y in joined if x.prompt == y.prompt]
      other += len(joined) - len(pairs)
      if pairs:
        bases = _base_answers(mode, a), _base_answers(names_b[mode.name], b)
        rows.append(_row(mode, label, pairs, bases, threshold))
  if not rows:
    raise ValueError(
      "the two runs have no answer in common: no mode of one name answered one"
      " question"
    )
  names_a = {mode.name for mode in in_a}
  return {
    "only_in_a": [m.name for m in in_a if m.name not in names_b],
    "only_in_b": [m.name for m in in_b if m.name not in names_a],
    "other_prompts": other,
    "modes": rows,
    "fell": [f"{row['mode']} ({row['tag']})" for row in rows if row["fell"]],
  }


def _by_tag(
  a: Sequence[Answer], b: Sequence[Answer], tag: str
) -> list[tuple[str, Sequence[Answer], Sequence[Answer]]]:
  values_a = list(dict.fromkeys(str(x.environment[tag]) for x in a))
  values_b = list(dict.fromkeys(str(x.environment[tag]) for x in b))
  common = [value for value in values_a if value in values_b]
  if not common:
    label = f"{', '.join(values_a)} -> {', '.join(values_b)}"
    return [(label, a, b)]
  return [
    (
      value or f"no {tag}",
      [x for x in a if str(x.environment[tag]) == value],
      [x for x in b if str(x.environment[tag]) == value],
    )
    for value in common
  ]


def _base_answers(mode: Mode, run: Sequence[Answer]) -> list[Answer]:
  base = paired.baseline(mode, modes(run))
  if base is None or base.name == mode.name:
    return []
  return [x for x in run if x.mode.name == base.name]


def _row(
  mode: Mode,
  label: str,
  pairs: Sequence[Pair],
  bases: tuple[list[Answer], list[Answer]],
  threshold: float,
) -> dict[str, Any]:
  own_a, own_b = [x for x, _ in pairs], [y for _, y in pairs]
  beside_a, beside_b = (
    paired.join(own_a, bases[0]),
    paired.join(own_b, bases[1]),
  )
  difference = _acceptance(pairs)
  fell = False
  if difference is not None and difference.high is not None:
    fell = difference.high < 0 and -difference.estimate >= threshold
  return {
    "mode": mode.name,
    "law": law_name(mode),
    "tag": label,
    "answers": len(pairs),
    "questions": len({x.question_id for x in own_a}),
    "a": _figures(own_a, beside_a),
    "b": _figures(own_b, beside_b),
    "speedup_ratio": _dict(_speedup_ratio(beside_a, beside_b)),
    "acceptance_difference": _dict(difference),
    "identity": paired.identity([(y, x) for x, y in pairs]),
    "fell": fell,
  }


def _figures(own: Sequence[Answer], beside: Sequence[Pair]) -> dict[str, Any]:
  figures = pool(own)
  kept = (
    "draft_acceptance_rate",
    "mean_acceptance_length",
    "tokens_per_s",
    "tokens_per_pass",
    "drafted",
  )
  speedup = _dict(paired.speedup(beside))
  return {"speedup": speedup, **{name: figures[name] for name in kept}}


def _speedup_ratio(a: Sequence[Pair], b: Sequence[Pair]) -> Estimate | None:
  """Of B's speedup over A's, on the questions that have one in both."""
  speeds = []
  for pairs in (a, b):
    sums = paired.work(pairs)
    speeds.append({q: (t / s) / (u / r) for q, (t, s, u, r) in sums.items()})
  common = [q for q in speeds[0] if q in speeds[1]]
  if not common:
    return None
  return statistics.geometric_mean(
    [speeds[1][q] / speeds[0][q] for q in common]
  )


def _acceptance(pairs: Sequence[Pair]) -> Estimate | None:
  """Rate of the second minus rate of the first, over questions."""
  sums: dict[str, np.ndarray] = {}
  for x, y in pairs:
    if not (x.rounds and y.rounds):
      continue
    s, t = y.stats, x.stats
    row = np.asarray([s.accepted, s.drafted, t.accepted, t.drafted])
    sums[x.question_id] = sums.get(x.question_id, np.zeros(4)) + row
  if not sums:
    return None
  counts = np.stack(list(sums.values()), 1)
  if not (counts[1].sum() and counts[3].sum()):
    return None
  return statistics.rate_difference(*counts.tolist())


def _dict(estimate: Estimate | None) -> dict[str, Any] | None:
  return None if estimate is None else dataclasses.asdict(estimate)
