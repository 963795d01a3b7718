"""Arms of an ablation side by side: means over seeds, intervals by prompt."""

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from experiments.ablate_settings import Arm, Study
from specjax.evaluation.figures.statistics import rate_difference
from specjax.training import scaling

# A share of each prompt's whole, by prompt: {prompt: (part, whole)}.
Sums = dict[str, tuple[float, float]]
MEASURES = ("acceptance", "tokens_a_round")


@dataclasses.dataclass(frozen=True)
class Finished:
  """What one seed of an arm came to: its summary.json and evaluation.json."""

  seed: int
  summary: Mapping[str, Any]
  trials: Sequence[Mapping[str, Any]]

  def sums(self, measure: str, temperature: float) -> Sums:
    """Of a measure at a temperature; {} where it was not taken.

    acceptance is sum min(p, q) by teacher forcing on the target's answers, at
    depth 1; tokens_a_round is of the loop.
    """
    (trial,) = [t for t in self.trials if t["temperature"] == temperature]
    if measure == "tokens_a_round":
      return {
        one["prompt_id"]: (one["emitted"], one["rounds"])
        for one in trial["by_prompt"]
      }
    held = trial.get("held_out")
    if held is None:
      return {}
    return {
      one["prompt_id"]: (one["total"][0], one["count"][0])
      for one in held["by_prompt"]
    }


def compare(
  study: Study, finished: Mapping[str, Sequence[Finished]]
) -> dict[str, Any]:
  """Every finished arm's figures, and the curves.

  Args:
    finished: seeds of each arm.

  Returns:
    temperature, smoke, arms (a dict each: name, against, seeds, parameters,
    answer_tokens, drafted_tokens, positions, steps, training_s, and of each
    measure `of_measure`), curves (see `curves`).

  Raises:
    ValueError: a run that was not measured at the temperature.
  """
  for name, runs in finished.items():
    for run in runs:
      if study.temperature not in [t["temperature"] for t in run.trials]:
        raise ValueError(
          f"arm {name} was not measured at temperature {study.temperature:g}"
        )
  arms = [
    _arm(study, arm, finished) for arm in study.arms if finished[arm.name]
  ]
  return {
    "temperature": study.temperature,
    "smoke": study.smoke,
    "arms": arms,
    "curves": curves(study, finished),
  }


def _arm(study: Study, arm: Arm, finished) -> dict[str, Any]:
  runs = finished[arm.name]
  summaries = [run.summary for run in runs]

  def mean(name: str) -> float:
    return statistics.fmean(s.get(name, 0) for s in summaries)

  def sums(these: Sequence[Finished], measure: str) -> list[Sums]:
    return [run.sums(measure, study.temperature) for run in these]

  alone = arm.against == arm.name
  others = [] if alone else finished.get(arm.against, [])
  names = ("answer_tokens", "drafted_tokens", "positions", "steps")
  return {
    "name": arm.name,
    "against": arm.against,
    "seeds": [run.seed for run in runs],
    "parameters": summaries[0]["parameters"],
    **{name: mean(name) for name in (*names, "training_s")},
    **{
      name: of_measure(sums(runs, name), sums(others, name))
      for name in MEASURES
    },
  }


def of_measure(
  ours: Sequence[Sums], theirs: Sequence[Sums]
) -> dict[str, Any] | None:
  """A rate over prompts, all seeds pooled, and its gain over another's.

  Args:
    ours: of each seed.
    theirs: of each seed of the other arm; the gain is over the prompts that
      both have, paired.

  Returns:
    estimate, low, high, prompts, by_seed and gain (estimate, low, high, prompts
    of the difference; None without common prompts); None where nothing was
    measured.
  """
  pooled, other = _pool(ours), _pool(theirs)
  if not pooled:
    return None
  parts, wholes = _columns(pooled, list(pooled))
  zero, one = np.zeros(len(pooled)), np.ones(len(pooled))
  own = rate_difference(parts, wholes, zero, one)
  common = [name for name in pooled if name in other]
  gain = None
  if common:
    a, b = _columns(pooled, common), _columns(other, common)
    gain = _interval(rate_difference(*a, *b))
  rates = [[sum(x) for x in zip(*s.values(), strict=True)] for s in ours if s]
  return {
    **_interval(own),
    "by_seed": [part / whole for part, whole in rates],
    "gain": gain,
  }


def curves(
  study: Study, finished: Mapping[str, Sequence[Finished]]
) -> dict[str, Any]:
  """{curve: acceptance against answer tokens, with what ten times would give}.

  Of each: points (name, tokens, acceptance of each arm), and `fit` of
  `scaling.extrapolate`; None below three sizes.
  """
  found: dict[str, Any] = {}
  for name in dict.fromkeys(a.curve for a in study.arms if a.curve is not None):
    members = [
      (arm, finished[arm.name])
      for arm in study.arms
      if arm.curve == name and finished[arm.name]
    ]
    tables = [
      [run.sums("acceptance", study.temperature) for run in runs]
      for _, runs in members
    ]
    tokens = [float(runs[0].summary["answer_tokens"]) for _, runs in members]
    pairs = zip(members, tokens, tables, strict=True)
    points = [
      {"name": arm.name, "tokens": x, "acceptance": of_measure(table, [])}
      for (arm, _), x, table in pairs
    ]
    fit = None
    if len(set(tokens)) >= 3 and all(all(table) for table in tables):
      totals, counts = _stacked(tables)
      fit = scaling.extrapolate(tokens, totals, counts)
    found[name] = {"points": points, "fit": fit}
  return found


def _stacked(
  tables: Sequence[Sequence[Sums]],
) -> tuple[Float[np.ndarray, "N S P"], Float[np.ndarray, "N S P"]]:
  """(totals, counts) of the prompts and as many seeds as all sizes have."""
  seeds = min(len(table) for table in tables)
  everywhere = set.intersection(*(set(s) for table in tables for s in table))
  names = [name for name in tables[0][0] if name in everywhere]
  rows = [
    [[sums[name] for name in names] for sums in table[:seeds]]
    for table in tables
  ]
  both = np.asarray(rows, np.float64)
  return both[..., 0], both[..., 1]


def _pool(seeds: Sequence[Sums]) -> Sums:
  """Added up by prompt, of the prompts that every seed has."""
  if not seeds:
    return {}
  common = [name for name in seeds[0] if all(name in s for s in seeds)]
  return {
    name: (sum(s[name][0] for s in seeds), sum(s[name][1] for s in seeds))
    for name in common
  }


def _columns(sums: Sums, names: Sequence[str]):
  parts, wholes = zip(*(sums[name] for name in names), strict=True)
  return list(parts), list(wholes)


def _interval(found) -> dict[str, Any]:
  return {
    "estimate": found.estimate,
    "low": found.low,
    "high": found.high,
    "prompts": found.n,
  }
