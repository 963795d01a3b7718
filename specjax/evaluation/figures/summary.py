"""From the records of a run to all the figures that are printed of it."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from specjax.evaluation.figures import comparisons, paired
from specjax.evaluation.figures.paired import Pair, Place
from specjax.evaluation.figures.pooling import is_repetitive, pool
from specjax.evaluation.figures.wording import law_name, verdict
from specjax.evaluation.records import Answer, Mode, modes


def summarize(
  answers: Sequence[Answer],
  costs: Mapping[str, Any] | None = None,
  config: Mapping[str, Any] | None = None,
  near_ties: Mapping[str, Collection[Place]] | None = None,
) -> dict[str, Any]:
  """All figures of a run, as JSON can hold them.

  Args:
    answers: of one run, or of several joined.
    costs: {mode: {passes, drafts, bookkeeping}} as `results.costs_json` makes
      them, kept as they are.
    config: of the run, kept as it is.
    near_ties: {mode: (question_id, turn, repeat) of the answers whose first
      difference is a near-tie of the target's logits}, for the modes whose
      differences were all looked at.

  Returns:
    baseline: name of the first plain mode by specjax; None without one.
    environment: what all answers have in common.
    environment_varies: {field: [values]} of the rest.
    config, costs: as given.
    modes: a list of {
      mode: its fields.
      law: "greedy", or the settings of sampling.
      baseline: name of plain decoding at the same law; None without it.
      bookkeeping_share: of its measured rounds, what is neither drafting nor
        target pass; None without costs.
      answers: how many.
      verdict: what is known of its output law, in a few words.
      pooled: of all answers; see `pooling.pool`.
      speedup: over the baseline, of answers that both have; see
        `statistics.Speedup`. None for the baseline itself.
      identity: with the baseline's token ids; see `paired.identity`.
      categories: {name: {begun, and the five above}}; answers whose beginning
        was given are rows of their own, marked "(begun)".
      headline: {left_out, left_out_repetitive, left_out_begun, and the five
        above}, without answers whose beginning was given and those that repeat
        more than 15 % of their 8-grams, or whose baseline's do.
    }
    prediction: [{mode, num_speculative_tokens, answers, predicted_s,
      measured_s, ratio}] where seconds were predicted.
    comparisons: [{a, b, law, scope, ratio, n, n_needed, sentence}]: every mode
      against its baseline, and the fastest of a law against the others;
      `ratio` is the speed of a over that of b, on the headline's answers
      (scope "headline"), or on all where none are left ("all").

  Raises:
    ValueError: no answers.
  """
  if not answers:
    raise ValueError("there are no answers to summarize")
  known = modes(answers)
  of_mode = {mode.name: [] for mode in known}
  for answer in answers:
    of_mode[answer.mode.name].append(answer)
  entries = []
  for mode in known:
    own, base = of_mode[mode.name], paired.baseline(mode, known)
    others = of_mode[base.name] if base is not None and base != mode else []
    ties = (near_ties or {}).get(mode.name)
    pairs = paired.join(own, others)
    entry = _mode_entry(_Own(mode, base, own, pairs, ties))
    share = (costs or {}).get(mode.name, {}).get("bookkeeping")
    entries.append({**entry, "bookkeeping_share": share})
  plain = [m for m in known if m.is_plain and m.system == "specjax"]
  common, varies = _environments(answers)
  return {
    "baseline": plain[0].name if plain else None,
    "environment": common,
    "environment_varies": varies,
    "config": dict(config) if config is not None else {},
    "costs": dict(costs) if costs is not None else {},
    "modes": entries,
    "prediction": [
      _prediction(m, of_mode[m.name])
      for m in known
      if any(a.predicted_s is not None for a in of_mode[m.name])
    ],
    "comparisons": comparisons.compare(known, of_mode),
  }


@dataclasses.dataclass(frozen=True)
class _Own:
  """A mode's answers, beside the baseline's."""

  mode: Mode
  base: Mode | None
  answers: list[Answer]
  pairs: list[Pair]
  near_ties: Collection[Place] | None

  @property
  def is_base(self) -> bool:
    return self.base is not None and self.base.name == self.mode.name

  def part(self, kept: Sequence[Answer]) -> dict[str, Any]:
    """Figures of some of the answers."""
    keys = {answer.key for answer in kept}
    ratio = paired.speedup([pair for pair in self.pairs if pair[0].key in keys])
    identity = paired.identity(self.pairs, keys, self.near_ties)
    law = "baseline" if self.is_base else verdict(self.mode, identity)
    return {
      "answers": len(kept),
      "verdict": law,
      "pooled": pool(kept),
      "speedup": None if ratio is None else dataclasses.asdict(ratio),
      "identity": identity,
    }


def _mode_entry(own: _Own) -> dict[str, Any]:
  groups: dict[str, list[Answer]] = {}
  for answer in own.answers:
    groups.setdefault(_row_name(answer), []).append(answer)
  return {
    "mode": dataclasses.asdict(own.mode),
    "law": law_name(own.mode),
    "baseline": own.base.name if own.base is not None else None,
    **own.part(own.answers),
    "categories": {
      name: {"begun": group[0].begun, **own.part(group)}
      for name, group in groups.items()
    },
    "headline": _headline(own),
  }


def _headline(own: _Own) -> dict[str, Any]:
  flattered = {a.key for a, b in own.pairs if is_repetitive(b)}
  begun = [a for a in own.answers if a.begun]
  rest = [a for a in own.answers if not a.begun]
  kept = [a for a in rest if not is_repetitive(a) and a.key not in flattered]
  return {
    "left_out": len(own.answers) - len(kept),
    "left_out_begun": len(begun),
    "left_out_repetitive": len(rest) - len(kept),
    **own.part(kept),
  }


def _row_name(answer: Answer) -> str:
  name = answer.category or "no category"
  if answer.begun and "begun" not in name:
    return f"{name} (begun)"
  return name


def _environments(
  answers: Sequence[Answer],
) -> tuple[dict[str, Any], dict[str, list[Any]]]:
  """(what all have in common, the values of what they have not)."""
  values: dict[str, list[Any]] = {}
  for answer in answers:
    for name in answer.environment:
      values.setdefault(name, [])
  for name, found in values.items():
    for answer in answers:
      value = answer.environment.get(name)
      if value not in found:
        found.append(value)
  common = {name: found[0] for name, found in values.items() if len(found) == 1}
  return common, {n: found for n, found in values.items() if len(found) > 1}


def _prediction(mode: Mode, own: Sequence[Answer]) -> dict[str, Any]:
  with_one = [a for a in own if a.predicted_s is not None]
  figures = pool(with_one)
  return {
    "mode": mode.name,
    "num_speculative_tokens": mode.num_speculative_tokens,
    "answers": len(with_one),
    "predicted_s": figures["predicted_s"],
    "measured_s": figures["decode_s"],
    "ratio": figures["predicted_over_measured"],
  }
