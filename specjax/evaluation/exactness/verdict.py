"""Is it lossless? Evidence from samples, beside a control that must fail."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from specjax.evaluation.exactness import statistics
from specjax.evaluation.exactness.laws import JointLaw
from specjax.evaluation.exactness.samples import Sampler, Samples
from specjax.evaluation.exactness.statistics import Interval

# A right program fails one test on all samples with this probability, and one
# on the samples of one seed with the other.
FAILURE_PROBABILITY = 1e-6
SEED_FAILURE_PROBABILITY = 1e-3
TARGET, SPECULATIVE, CONTROL = "target only", "speculative", "control"
_GROWTH = 4
_FIRST_SIZE = 250
_LEAST_LONG = 0.1  # share of samples that took three rounds or more


@dataclasses.dataclass(frozen=True)
class Column:
  """One sampler's evidence.

  Attributes:
    total_variation, p_values: of the joint law, at each sample size.
    position_total_variation, position_p_values: of each token's own law, all
      samples.
    seed_p_values: of the joint law, one a seed.
    uniformity: p-value of the Kolmogorov-Smirnov test that those are uniform.
    rejected_seeds: how many of them are below SEED_FAILURE_PROBABILITY.
    distance: total variation that chance does not inflate.
    three_rounds: share of samples that took three rounds or more.
    drafted, accepted: tokens, in the rounds that made the samples.
    outside: samples that the law says cannot happen.
  """

  total_variation: tuple[float, ...]
  p_values: tuple[float, ...]
  position_total_variation: tuple[float, ...]
  position_p_values: tuple[float, ...]
  seed_p_values: tuple[float, ...]
  uniformity: float
  rejected_seeds: int
  distance: Interval
  three_rounds: float
  drafted: int
  accepted: int
  outside: int

  @property
  def faults(self) -> list[str]:
    """Which tests say that the law is another one."""
    least = FAILURE_PROBABILITY
    found = []
    if self.outside:
      found.append(f"{self.outside} samples that the law rules out")
    if self.p_values[-1] < least:
      found.append(f"joint law: {_said(self.p_values[-1])}")
    found += [
      f"law of token {i}: {_said(p)}"
      for i, p in enumerate(self.position_p_values, 1)
      if p < least
    ]
    if self.uniformity < least:
      found.append(f"p-values not uniform: {_said(self.uniformity)}")
    return found


@dataclasses.dataclass(frozen=True)
class Evidence:
  """What was measured of a drafter with a rule at one sampling setting.

  Attributes:
    claimed: whether the rule says that it is lossless with this drafter.
    sizes: sample sizes, ascending; the last is all samples.
    floor: total variation of an exact sampler at each size, on average.
    position_floor: the same of each token's own law, all samples.
    texts: outcomes of the joint law.
    columns: by name: TARGET, SPECULATIVE, CONTROL.
  """

  claimed: bool
  length: int
  seeds: int
  samples: int  # of each seed
  texts: int
  sizes: tuple[int, ...]
  floor: tuple[float, ...]
  position_floor: tuple[float, ...]
  columns: dict[str, Column]

  @property
  def failure_probability(self) -> float:
    """At most so likely is a verdict of "fault" where all is exact."""
    tests = 2 * (self.length + 2)  # joint, each token, uniformity; two columns
    return tests * FAILURE_PROBABILITY

  @property
  def weakness(self) -> str | None:
    """Why these samples cannot show that a rule is lossless, or None."""
    made, control = self.columns[SPECULATIVE], self.columns[CONTROL]
    if not made.drafted:
      return "nothing was drafted: give a prompt whose end it repeats"
    if made.three_rounds < _LEAST_LONG:
      return (
        f"only {made.three_rounds:.1%} of the samples took three rounds: raise"
        " --length or lower --num_speculative_tokens"
      )
    if control.rejected_seeds < self.seeds or not control.faults:
      return (
        f"the biased control was rejected at {control.rejected_seeds} of"
        f" {self.seeds} seeds only: raise --samples, or draft so that more is"
        " refused"
      )
    return None

  @property
  def verdict(self) -> tuple[str, bool]:
    """(a sentence, whether all is as the rule says)."""
    made, target = self.columns[SPECULATIVE], self.columns[TARGET]
    d = made.distance
    away = f"TV {d.estimate:.4f} ({d.low:.4f} to {d.high:.4f})"
    if target.faults:
      reason = "; ".join(target.faults)
      return f"no verdict: plain decoding itself is off: {reason}", False
    if made.faults:
      reason = "; ".join(made.faults)
      if self.claimed:
        return f"NOT lossless, though its rule says so: {reason}; {away}", False
      return f"not lossless, as its rule says: {away}; {reason}", True
    if self.weakness is not None:
      return f"no verdict, the test has no power here: {self.weakness}", False
    if self.claimed:
      return f"lossless: no test tells it from the target's law; {away}", True
    return f"a lossy rule, but no difference found here: {away}", True

  def to_json(self) -> dict[str, Any]:
    """All of it, and the verdict."""
    sentence, ok = self.verdict
    record = dataclasses.asdict(self)
    for column in record["columns"].values():
      column["distance"] = column["distance"]._asdict()
    return {
      "verdict": sentence,
      "as_claimed": ok,
      **record,
      "failure_probability": self.failure_probability,
      "seed_failure_probability": SEED_FAILURE_PROBABILITY,
    }


def measure(
  samplers: dict[str, Sampler],
  law: JointLaw,
  *,
  claimed: bool,
  samples: int,
  seeds: int,
  seed: int = 0,
  report: Callable[[str], None] = lambda text: None,
) -> Evidence:
  """Samples and tests.

  Sample i of seed s in column c is drawn with a key of its own: `seed` folded
  with c, s and i.

  Args:
    samplers: TARGET, SPECULATIVE and CONTROL, of the law's length.
    law: the exact one.
    claimed: whether the speculative column is said to be lossless.
    samples: of each seed.
    seeds: at least 2.
    report: told what is done.

  Raises:
    ValueError: too few samples or seeds.
  """
  if seeds < 2:
    raise ValueError(f"seeds must be at least 2, got {seeds}")
  if samples < 2 * statistics.LEAST_EXPECTED:
    raise ValueError(f"samples must be at least 10 a seed, got {samples}")
  sizes = _sizes(samples * seeds)
  columns = {}
  for number, (name, sampler) in enumerate(samplers.items()):
    key = jax.random.fold_in(jax.random.key(seed), number)
    drawn = []
    for s in range(seeds):
      report(f"{name}: seed {s + 1} of {seeds}")
      drawn.append(sampler.draw(jax.random.fold_in(key, s), samples))
    columns[name] = _column(drawn, law, sizes)
  floor = statistics.expected_total_variation
  alone = [law.at(i) for i in range(law.length)]
  return Evidence(
    claimed=claimed,
    length=law.length,
    seeds=seeds,
    samples=samples,
    texts=len(law.texts),
    sizes=sizes,
    floor=tuple(floor(law.probabilities, n) for n in sizes),
    position_floor=tuple(floor(a.probabilities, sizes[-1]) for a in alone),
    columns=columns,
  )


def _said(p_value: float) -> str:
  return f"p = {p_value:.1e}" if p_value else "p < 1e-300"


def _sizes(number: int) -> tuple[int, ...]:
  sizes, size = [], _FIRST_SIZE
  while size < number:
    sizes.append(size)
    size *= _GROWTH
  return (*sizes, number)


def _tests(law: JointLaw, places) -> tuple[float, float]:
  """(total variation, p-value) of samples at these places of a law."""
  counts = np.bincount(places[places >= 0], minlength=len(law.texts))
  outside, p = int((places < 0).sum()), law.probabilities
  return (
    statistics.total_variation(counts, outside, p),
    statistics.chi_square(counts, outside, p),
  )


def _column(drawn: list[Samples], law: JointLaw, sizes) -> Column:
  tokens = np.concatenate([d.tokens for d in drawn])
  places = law.locate(tokens)
  rounds = np.concatenate([d.rounds for d in drawn])
  grown = [_tests(law, places[:n]) for n in sizes]
  alone = [law.at(i) for i in range(law.length)]
  each = [
    _tests(one, one.locate(tokens[:, i : i + 1])) for i, one in enumerate(alone)
  ]
  by_seed = [_tests(law, part)[1] for part in np.split(places, len(drawn))]
  return Column(
    total_variation=tuple(tv for tv, _ in grown),
    p_values=tuple(p for _, p in grown),
    position_total_variation=tuple(tv for tv, _ in each),
    position_p_values=tuple(p for _, p in each),
    seed_p_values=tuple(by_seed),
    uniformity=statistics.uniformity(np.asarray(by_seed)),
    rejected_seeds=sum(p < SEED_FAILURE_PROBABILITY for p in by_seed),
    distance=statistics.distance(places, law.probabilities),
    three_rounds=float((rounds >= 3).mean()),
    drafted=sum(d.drafted for d in drawn),
    accepted=sum(d.accepted for d in drawn),
    outside=int((places < 0).sum()),
  )
