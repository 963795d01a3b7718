"""The walkthrough: a toy language in numpy, tables of speedup, 7B on an H100.

Its tables are functions of numpy's bit stream, so `walkthrough_oracle` gives
them to the digit; the same experiments through the library's own loop,
`walkthrough_loop`, agree but for chance. The table of its timings with two
small models is lost in the document.
"""

import dataclasses
import math
from collections.abc import Iterator

import jax
import numpy as np

from specjax.evaluation.exactness import statistics
from specjax.evaluation.reproduction import (
  chain_law,
  walkthrough_loop,
  walkthrough_oracle,
)
from specjax.evaluation.reproduction import walkthrough_printed as printed
from specjax.evaluation.reproduction.cells import (
  Cell,
  Figure,
  Paper,
  Settings,
  half_unit,
)
from specjax.models.presets import PRESETS
from specjax.theory import (
  acceptance,
  devices,
  roofline,
  shapes,
  speedup,
  toy_language,
)

GAMMA = 3


def laws(settings: Settings) -> Iterator[Cell]:
  """Acceptance in each context, and what the biased sampler converges to."""
  del settings
  target, draft = toy_language.laws()
  ours = np.asarray(acceptance.acceptance(target, draft))
  for context, value in enumerate(printed.ALPHA):
    yield Cell(
      f"alpha in context {context}",
      "formula",
      float(ours[context]),
      value,
      half_unit(3),
    )
  match = np.asarray(acceptance.exact_match_acceptance(target, draft))
  wrong = (
    "the document disagrees with itself: sum p q of its own P and Q is"
    f" {match.min():.3f} to {match.max():.3f}"
  )
  for name, value, number in zip(
    ("least", "largest"), (match.min(), match.max()), printed.MATCH, strict=True
  ):
    place = f"text: {name} acceptance of exact match"
    yield Cell(place, "formula", float(value), number, half_unit(2), note=wrong)
  texts = toy_language.joint()
  start = toy_language.START
  biased, exact = (
    chain_law.text_law(target, draft, start, GAMMA, toy_language.LENGTH, wrong)
    for wrong in (True, False)
  )
  yield Cell(
    "text: what the total variation of the buggy sampler stays at",
    "formula",
    float(np.abs(biased - texts).sum() / 2),
    printed.BIAS,
    0.002,
    note="the law of its rounds, by enumeration; printed as about, and read off"
    " 400,000 samples, whose variation lies above their law's",
  )
  yield Cell(
    "text: total variation of the speculative sampler's own law",
    "formula",
    float(np.abs(exact - texts).sum() / 2),
    0.0,
    1e-12,
    note="the law of its rounds, by enumeration; the document proves 0",
  )
  yield Cell(
    "text: how far 1,000 samples of the target lie from its law",
    "formula",
    statistics.expected_total_variation(texts, 1_000),
    printed.FLOOR,
    half_unit(2),
    note="the mean over samples, in closed form",
  )


def speedup_tables(settings: Settings) -> Iterator[Cell]:
  """Speedup by alpha, k and draft cost, and the best k."""
  del settings
  for cost, table in printed.SPEEDUPS.items():
    for alpha, (numbers, best, factor) in table.items():
      place = f"speedup table, c = {cost}, alpha = {alpha}"
      with jax.enable_x64(True):  # 1.575 is printed as 1.57
        ours = np.asarray(speedup.speedup(alpha, np.asarray(printed.KS), cost))
      for gamma, value, number in zip(printed.KS, ours, numbers, strict=True):
        yield Cell(
          f"{place}, k = {gamma}",
          "formula",
          float(value),
          number,
          half_unit(2),
        )
      length, most = speedup.best_length(alpha, cost, printed.LONGEST)
      yield Cell(f"{place}: best k", "formula", float(length), float(best), 0.0)
      yield Cell(
        f"{place}: its speedup", "formula", float(most), factor, half_unit(2)
      )
  yield Cell(
    "text: what alpha = 0.8 never exceeds, tokens a pass",
    "formula",
    float(speedup.most_tokens_per_pass(0.8)),
    5.0,
    half_unit(0),
  )


def arithmetic(settings: Settings) -> Iterator[Cell]:
  """One token of a 7B model on an H100."""
  del settings
  shape = dataclasses.replace(
    shapes.shape_of(PRESETS["llama-2-7b"]), parameters=7_000_000_000
  )
  setup = roofline.Setup()
  run = roofline.model_pass(shape, devices.device("h100"), setup, 1, 0)
  note = "peaks as the vendor prints them, context 0; printed as about"
  for name, ours, number, tolerance in (
    ("GB of weights read", float(run.bytes) / 1e9, 14.0, half_unit(0)),
    ("ms to read them", float(run.memory_seconds) * 1e3, 4.0, half_unit(0)),
    ("tokens a second at most", 1 / float(run.seconds), 240.0, half_unit(-1)),
    ("GFLOP", float(run.operations) / 1e9, 14.0, half_unit(0)),
    (
      "microseconds of arithmetic",
      float(run.arithmetic_seconds) * 1e6,
      14.0,
      half_unit(0),
    ),
  ):
    place = f"text: a token of a 7B model on an H100, {name}"
    yield Cell(place, "formula", ours, number, tolerance, note=note)


def timings(settings: Settings) -> Iterator[Cell]:
  """The lost table: its protocol is described, no number is left."""
  del settings
  note = (
    "protocol, no published cell: the document's table is lost. Not run here:"
    " it needs SmolLM2-360M and SmolLM2-135M. python -m experiments.benchmark"
    " --config=configs/seed000.py is the protocol, greedy and at temperature 1,"
    " with --model and --draft_model; with --draft_layers it runs on the"
    " default model alone"
  )
  for prompt in ("code edit", "story"):
    for mode in (
      "greedy, draft model, k = 5",
      "greedy, prompt lookup, k = 10",
      "sampled, draft model, k = 5",
    ):
      place = f"timings, {prompt}, {mode}: speedup"
      yield Cell(place, "sampler", math.nan, None, 0.0, note=note)


def cells(settings: Settings) -> Iterator[Cell]:
  """All of them."""
  yield from laws(settings)
  drawn = walkthrough_oracle.drawn(settings)
  yield from walkthrough_oracle.sampler_table(drawn)
  yield from walkthrough_oracle.seeds(drawn)
  for part in (
    walkthrough_oracle.acceptance_table,
    speedup_tables,
    arithmetic,
    walkthrough_loop.sampler_table,
    walkthrough_loop.seeds,
    walkthrough_loop.acceptance_table,
    timings,
  ):
    yield from part(settings)


def figures(settings: Settings) -> Iterator[Figure]:
  """Total variation by samples, p-values, tokens by k, speedup by k."""
  yield from walkthrough_oracle.figures(walkthrough_oracle.drawn(settings))
  gammas = list(range(1, 9))
  tokens = [float(speedup.tokens_per_pass(0.78, gamma)) for gamma in gammas]
  lengths = [row[0] for row in printed.LENGTHS]
  yield Figure(
    "Tokens a target call by draft length",
    "k",
    "tokens a call",
    {"formula at alpha = 0.78": (gammas, tokens)},
    {"measured, as printed": (lengths, [row[2] for row in printed.LENGTHS])},
  )
  for cost, table in printed.SPEEDUPS.items():
    steps = np.arange(1, 21)
    curves, points = {}, {}
    for alpha, (numbers, *_) in table.items():
      ours = np.asarray(speedup.speedup(alpha, steps, cost)).tolist()
      curves[f"alpha = {alpha}"] = (steps.tolist(), ours)
      points[f"alpha = {alpha}, printed"] = (printed.KS, numbers)
    title = f"Speedup by draft length, draft cost {cost}"
    yield Figure(title, "k", "speedup", curves, points)


PAPER = Paper(
  "walkthrough",
  "Speculative Decoding Explained: Draft Cheap, Verify in One Pass",
  "published walkthrough",
  cells,
  figures,
)
