"""The walkthrough's experiments through the library's compiled loop."""

import math
from collections.abc import Iterator

import numpy as np

from specjax.acceptance import BiasedResample, ExactMatch, Rejection
from specjax.evaluation.exactness import statistics
from specjax.evaluation.reproduction import bigram_loop
from specjax.evaluation.reproduction import walkthrough_printed as printed
from specjax.evaluation.reproduction.cells import Cell, Settings, half_unit
from specjax.theory import toy_language

GAMMA = 3
ERRORS = 4  # standard errors that two samples may lie apart
# Rounds of a text before its context is that of a long text.
_SETTLING = 4
_QUICK_COUNT = 10_000
_QUICK_SEEDS = 2
# Standard deviation of a total variation times the square root of the samples:
# of an exact sampler's many cells, and at most.
_EXACT_SPREAD = 0.5 * math.sqrt(1 - 2 / math.pi)
_LARGEST_SPREAD = 0.5


class _Sampler:
  """Four tokens of the toy language at a time, by one of the three samplers."""

  def __init__(self, name: str):
    self.name = name
    self.exact = name != "buggy"
    target, draft = toy_language.laws()
    self._gamma = 0 if name == "target only" else GAMMA
    rules = {"speculative": Rejection(), "buggy": BiasedResample()}
    rule = rules.get(name, ExactMatch())
    self._loop = bigram_loop.Loop(target, draft, rule, self._gamma)

  def fit(self, count: int, seed: int) -> toy_language.Fit:
    drawn = self._loop.run(
      count,
      toy_language.START,
      num_speculative_tokens=self._gamma,
      length=toy_language.LENGTH,
      seed=seed,
    )
    return toy_language.compare(self.name, drawn.codes(toy_language.SIZE))


def sampler_table(settings: Settings) -> Iterator[Cell]:
  """The table of three samplers; the biased one must be seen."""
  samplers = [_Sampler(name) for name in toy_language.SAMPLERS]
  for count, rows in printed.SAMPLERS.items():
    if settings.quick and count > _QUICK_COUNT:
      continue
    settings.say(f"walkthrough: {count:,} samples by the compiled loop")
    for sampler, (variation, p_value) in zip(samplers, rows, strict=True):
      fit = sampler.fit(count, settings.seed)
      place = f"sampler table by the loop, N = {count:,}, {sampler.name}"
      spread = _EXACT_SPREAD if sampler.exact else _LARGEST_SPREAD
      yield Cell(
        f"{place}: TV",
        "sampler",
        fit.variation,
        variation,
        ERRORS * math.sqrt(2 / count) * spread,
        note="other draws than the document's: four standard deviations of the"
        " difference of two such samples",
      )
      if not sampler.exact:
        yield Cell(f"{place}: p", "sampler", fit.p_value, p_value, half_unit(4))


def seeds(settings: Settings) -> Iterator[Cell]:
  """p-values of 30 seeds, which are uniform for an exact sampler."""
  number = _QUICK_SEEDS if settings.quick else printed.NUM_SEEDS
  count = _QUICK_COUNT if settings.quick else printed.SEED_SAMPLES
  for name in ("target only", "speculative"):
    settings.say(f"walkthrough: {number} seeds by the compiled loop, {name}")
    sampler, first = _Sampler(name), 1 + number * settings.seed
    values = np.asarray(
      [sampler.fit(count, first + i).p_value for i in range(number)]
    )
    place = f"text: p-values of 30 seeds by the loop, {name}"
    note = (
      f"{number} seeds of {count:,} samples; smallest {values.min():.3f},"
      f" largest {values.max():.3f}: other draws than the document's, which"
      " prints no test of uniformity"
    )
    yield Cell(
      f"{place}: Kolmogorov-Smirnov p",
      "sampler",
      statistics.uniformity(values),
      None,
      0.0,
      note=note,
    )


def acceptance_table(settings: Settings) -> Iterator[Cell]:
  """Acceptance and tokens a call by draft length."""
  loop = bigram_loop.Loop(*toy_language.laws(), Rejection())
  settings.say("walkthrough: rounds by the compiled loop")
  for gamma, alpha, tokens, _ in printed.LENGTHS:
    drawn = loop.run(
      start=toy_language.START,
      num_speculative_tokens=gamma,
      seed=settings.seed,
      **bigram_loop.sizes_of(settings),
    )
    accepted, emitted = (
      counts[:, _SETTLING:] for counts in (drawn.accepted, drawn.emitted)
    )
    judged = int(np.minimum(accepted + 1, gamma).sum())
    number = emitted.size
    # The document's own figures err as those of its 50,000 rounds.
    both = 1 / number + 1 / printed.ROUNDS
    ours = float(accepted.sum()) / judged
    place = f"acceptance table by the loop, k = {gamma}"
    note = (
      f"{number:,} rounds, the first {_SETTLING} of each text left out; four"
      " standard errors of the difference"
    )
    yield Cell(
      f"{place}: alpha",
      "sampler",
      ours,
      alpha,
      half_unit(3)
      + ERRORS * math.sqrt(alpha * (1 - alpha) * both * number / judged),
      note=note,
    )
    yield Cell(
      f"{place}: tokens/call",
      "sampler",
      float(emitted.mean()),
      tokens,
      half_unit(3) + ERRORS * float(emitted.std()) * math.sqrt(both),
      note=note,
    )
