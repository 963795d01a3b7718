"""The walkthrough's sampled tables, draw for draw with numpy's generator."""

import functools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from specjax.evaluation.exactness import statistics
from specjax.evaluation.reproduction import walkthrough_printed as printed
from specjax.evaluation.reproduction.cells import (
  Cell,
  Figure,
  Settings,
  half_unit,
)
from specjax.theory import speedup, toy_language
from specjax.theory.toy_language import Fit

_QUICK_COUNT = 10_000
_QUICK_SEEDS = 2
_BETWEEN = (3_000, 30_000)  # counts of the figure that the table lacks
_RECOVERED = (
  "numpy's generator at seeds 1000 to 1029, the target's samples first: the"
  " document does not print its seeds"
)


class Drawn(NamedTuple):
  """What the samplers gave.

  Attributes:
    tables: by samples, a `Fit` for each sampler; counts of the figure too.
    p_values: by sampler, one a seed.
  """

  tables: dict[int, list[Fit]]
  p_values: dict[str, Float[np.ndarray, "n"]]


def draw(settings: Settings) -> Drawn:
  """Every sample that a table or a figure is about."""
  counts = sorted([*printed.SAMPLERS, *_BETWEEN])
  tables = {}
  for count in counts:
    if settings.quick and count > _QUICK_COUNT:
      continue
    settings.say(f"walkthrough: {count:,} samples in numpy")
    tables[count] = toy_language.sampler_table(count)
  number, count = printed.NUM_SEEDS, printed.SEED_SAMPLES
  if settings.quick:
    number, count = _QUICK_SEEDS, _QUICK_COUNT
  settings.say(f"walkthrough: {number} seeds in numpy")
  found: dict[str, list[float]] = {name: [] for name in toy_language.SAMPLERS}
  for seed in range(printed.FIRST_SEED, printed.FIRST_SEED + number):
    for fit in toy_language.sampler_table(count, seed):
      found[fit.sampler].append(fit.p_value)
  return Drawn(
    tables, {name: np.asarray(values) for name, values in found.items()}
  )


# Cells and figures of one call share it.
drawn = functools.lru_cache(maxsize=1)(draw)


def sampler_table(made: Drawn) -> Iterator[Cell]:
  """The table of three samplers."""
  for count, rows in printed.SAMPLERS.items():
    if count not in made.tables:
      continue
    for fit, (variation, p_value) in zip(made.tables[count], rows, strict=True):
      place = f"sampler table, N = {count:,}, {fit.sampler}"
      yield Cell(
        f"{place}: TV", "formula", fit.variation, variation, half_unit(4)
      )
      yield Cell(f"{place}: p", "formula", fit.p_value, p_value, half_unit(4))


def seeds(made: Drawn) -> Iterator[Cell]:
  """p-values of 30 seeds at N = 30,000; of fewer, nothing is printed."""
  number = len(made.p_values["buggy"])
  whole = number == printed.NUM_SEEDS
  note = _RECOVERED if whole else f"{number} seeds of {_QUICK_COUNT:,} samples"
  for name in ("target only", "speculative"):
    values = made.p_values[name]
    place = f"text: p-values of 30 seeds, {name}"
    for which, value, (published, decimals) in zip(
      ("smallest", "largest"),
      (values.min(), values.max()),
      printed.P_VALUES[name],
      strict=True,
    ):
      yield Cell(
        f"{place}: {which}",
        "formula",
        float(value),
        published if whole else None,
        half_unit(decimals),
        note=note,
      )
    yield Cell(
      f"{place}: Kolmogorov-Smirnov p",
      "formula",
      statistics.uniformity(values),
      None,
      0.0,
      note="uniform for an exact sampler; the document prints no such test",
    )
  yield Cell(
    "text: p-values of 30 seeds, buggy: largest",
    "formula",
    float(made.p_values["buggy"].max()),
    0.0,
    half_unit(4),
    note=note,
  )


def acceptance_table(settings: Settings) -> Iterator[Cell]:
  """Acceptance and tokens a call by draft length."""
  settings.say("walkthrough: rounds in numpy")
  rows = toy_language.acceptance_table()
  for row, (gamma, *numbers) in zip(rows, printed.LENGTHS, strict=True):
    formula = float(speedup.tokens_per_pass(row.alpha, gamma))
    for name, ours, value in zip(
      ("alpha", "tokens/call", "formula"),
      (row.alpha, row.tokens, formula),
      numbers,
      strict=True,
    ):
      place = f"acceptance table, k = {gamma}: {name}"
      yield Cell(place, "formula", ours, value, half_unit(3))
  tokens = {row.num_speculative_tokens: row.tokens for row in rows}
  for (short, long), value in printed.GAINS.items():
    yield Cell(
      f"text: tokens a pass that k = {long} gains over k = {short}",
      "formula",
      tokens[long] - tokens[short],
      value,
      half_unit(1),
    )


def figures(made: Drawn) -> Iterator[Figure]:
  """Total variation by samples, and the p-values' distribution."""
  counts = list(made.tables)
  law = toy_language.joint()
  floor = [statistics.expected_total_variation(law, n) for n in counts]
  rows = printed.SAMPLERS
  yield Figure(
    "Total variation from the exact law",
    "samples",
    "total variation",
    {
      "an exact sampler, on average": (counts, floor),
      **{
        name: (counts, [fits[i].variation for fits in made.tables.values()])
        for i, name in enumerate(toy_language.SAMPLERS)
      },
    },
    {
      f"{name}, printed": (list(rows), [row[i][0] for row in rows.values()])
      for i, name in enumerate(toy_language.SAMPLERS)
    },
    logx=True,
  )
  number = len(made.p_values["buggy"])
  share = ((np.arange(number) + 1) / number).tolist()
  curves = {
    name: (np.sort(values).tolist(), share)
    for name, values in made.p_values.items()
  }
  yield Figure(
    f"Chi-square p-values of {number} seeds",
    "p-value",
    "share of seeds below it",
    {"uniform": ([0.0, 1.0], [0.0, 1.0]), **curves},
  )
