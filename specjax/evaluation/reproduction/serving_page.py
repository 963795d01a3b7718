"""The serving page: Qwen3-8B on an H100 with Qwen3-0.6B drafting, simulated.

The page prints readouts of a simulation and not its constants; those below are
recovered from the readouts. Rows of 256 tokens end apart, and the batch drains.
Readouts of one run there are means over several here. Numbers that the page
quotes from papers are in the papers' own modules.
"""

import dataclasses
from collections.abc import Iterator

import numpy as np

from specjax.evaluation.reproduction.cells import (
  Cell,
  Figure,
  Paper,
  Settings,
  half_unit,
)
from specjax.models.presets import PRESETS
from specjax.theory import (
  batch_simulation,
  devices,
  positions,
  roofline,
  rounds,
  shapes,
  speedup,
)
from specjax.theory.roofline import Setup

TARGET, SMALL, LARGE = (
  shapes.shape_of(PRESETS[name])
  for name in ("qwen3-8b", "qwen3-0.6b", "qwen3-1.7b")
)
H100 = devices.device("h100")
REACHED = Setup(bandwidth_share=0.8, operations_share=0.75)  # recovered
FIRST, RATIO = 0.75, 0.85  # acceptance by position, recovered
CONTEXT, NEW_TOKENS = 2048, 256
TOLERANCE = 0.035
ROWS = 256  # simulated for a cell, in as many batches as that takes
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


@dataclasses.dataclass(frozen=True)
class Case:
  """Settings of the page; `draft` None is n-gram lookup."""

  batch: int = 1
  gamma: int = 4
  draft: shapes.ModelShape | None = SMALL
  first: float = FIRST
  ratio: float = RATIO
  context: int = CONTEXT


# Where, case, readout, printed number, decimals.
READOUTS = (
  ("defaults: speedup", Case(), "speedup", 1.94, 2),
  ("defaults: tokens/s", Case(), "tokens_per_second", 311.0, 0),
  ("defaults: plain tokens/s", Case(), "plain_tokens_per_second", 160.0, 0),
  ("defaults: acceptance length", Case(), "mean_acceptance_length", 2.63, 2),
  ("defaults: draft share of the time", Case(), "draft_share", 0.26, 2),
  ("defaults: arithmetic", Case(), "operations_factor", 2.06, 2),
  ("gamma 10: arithmetic", Case(gamma=10), "operations_factor", 4.53, 2),
  ("batch 64: speedup", Case(64), "speedup", 0.88, 2),
  ("batch 64: acceptance length", Case(64), "mean_acceptance_length", 2.61, 2),
  ("batch 64: arithmetic", Case(64), "operations_factor", 2.07, 2),
  ("batch 1,024: speedup", Case(1024), "speedup", 0.65, 2),
  *(
    (f"batch 1, gamma {gamma}: speedup", Case(1, gamma), "speedup", x, 2)
    for gamma, x in ((1, 1.61), (3, 1.94), (6, 1.74), (10, 1.42))
  ),
  *(
    (f"batch 32, gamma {gamma}: speedup", Case(32, gamma), "speedup", x, 2)
    for gamma, x in ((1, 1.26), (2, 1.27), (4, 1.05), (5, 0.94), (10, 0.58))
  ),
  ("1.7B draft: speedup", Case(draft=LARGE), "speedup", 1.39, 2),
  (
    "1.7B draft, alpha 0.95: speedup",
    Case(draft=LARGE, first=0.95),
    "speedup",
    1.86,
    2,
  ),
  ("constant acceptance: speedup", Case(ratio=1.0), "speedup", 2.29, 2),
  (
    "constant acceptance: acceptance length",
    Case(ratio=1.0),
    "mean_acceptance_length",
    3.10,
    2,
  ),
  (
    "n-gram, constant acceptance: arithmetic",
    Case(draft=None, ratio=1.0),
    "operations_factor",
    1.62,
    2,
  ),
  (
    "batch 64, context 8,192: draft share",
    Case(64, context=8192),
    "draft_share",
    0.72,
    2,
  ),
  (
    "batch 64, context 8,192: speedup",
    Case(64, context=8192),
    "speedup",
    0.71,
    2,
  ),
  ("log line: accepted tokens/s", Case(64), "accepted_per_second", 2519.6, 1),
  ("log line: drafted tokens/s", Case(64), "drafted_per_second", 6256.0, 1),
  ("log line: accepted", Case(64), "accepted", 10312.0, 0),
  ("log line: drafted", Case(64), "drafted", 25600.0, 0),
  ("log line: draft acceptance", Case(64), "draft_acceptance", 0.403, 3),
  *(
    (f"log line: position {i + 1}", Case(64), f"position_{i + 1}", x, 3)
    for i, x in enumerate((0.751, 0.477, 0.261, 0.123))
  ),
)


def simulator(case: Case) -> batch_simulation.Simulator:
  """The page's machine, drafting as the case does."""
  return batch_simulation.Simulator(
    TARGET,
    rounds.lookup() if case.draft is None else rounds.separate(case.draft),
    H100,
    REACHED,
    tuple(case.first * case.ratio**i for i in range(case.gamma)),
  )


def play(case: Case, rows: int = ROWS, seed: int = 0) -> dict[str, float]:
  """Mean readouts of a case over at least so many rows."""
  player = simulator(case)
  load = batch_simulation.Load(case.batch, case.batch, case.context, NEW_TOKENS)
  runs = [
    readouts(player.run(load, seed + i))
    for i in range(max(1, rows // case.batch))
  ]
  found = {name: float(np.mean([r[name] for r in runs])) for name in runs[0]}
  # Rare events: their expectation, which every run has in the mean.
  rates = positions.falling(case.first, case.ratio, case.gamma)
  for i, rate in enumerate(positions.unconditional(rates)):
    found[f"position_{i + 1}"] = float(rate)
  return found


def readouts(run: batch_simulation.Simulated) -> dict[str, float]:
  """What the page reads out of a batch, by the names of `READOUTS`."""
  found = {
    name: getattr(run, name)
    for name in (
      "speedup",
      "draft_share",
      "operations_factor",
      "tokens_per_second",
      "mean_acceptance_length",
      "accepted",
      "drafted",
    )
  }
  found["plain_tokens_per_second"] = run.tokens / run.plain_seconds
  found["accepted_per_second"] = run.accepted / run.seconds
  found["drafted_per_second"] = run.drafted / run.seconds
  found["draft_acceptance"] = run.accepted / run.drafted
  for i, rate in enumerate(run.acceptance_per_position):
    found[f"position_{i + 1}"] = float(rate)
  return found


def _within(place: str, ours, printed: float, decimals: int, note="") -> Cell:
  """3.5 %, or half a unit of the last digit where that is more."""
  half = half_unit(decimals)
  tolerance = max(TOLERANCE * printed, half)
  ours = float(ours)
  note = note or "3.5 % allowed, or half of the last digit"
  return Cell(place, "formula", ours, printed, tolerance, note=note)


def _simulated(settings: Settings) -> Iterator[Cell]:
  rows = 64 if settings.quick else ROWS
  note = f"means over {rows} rows or more; 3.5 % allowed"
  played: dict[Case, dict[str, float]] = {}
  for place, case, readout, printed, decimals in READOUTS:
    if case not in played:
      settings.say(f"simulating {place.partition(':')[0]}")
      enough = 256 if case.batch == 64 else rows
      played[case] = play(case, enough, settings.seed)
    ours = played[case][readout]
    yield _within(place, ours, printed, decimals, note)
  gain = played[Case(ratio=1.0)]["speedup"] / played[Case()]["speedup"]
  note = "the page says that 18 % more"
  yield _within("constant over falling acceptance", gain, 1.18, 2, note)


def _verify_pass() -> Iterator[Cell]:
  """Of full batches in the middle of their new tokens."""
  batch = np.asarray([1, 32, 64, 1024])
  context = CONTEXT + NEW_TOKENS // 2
  ours = roofline.model_pass(TARGET, H100, REACHED, batch, context, 5)
  gib = 2.0**30
  weights = roofline.weight_bytes(TARGET.parameters) / gib
  yield _within("weights, GiB", weights, 15.26, 2)
  yield _within("verify pass, GiB", ours.bytes[0] / gib, 15.6, 1)
  yield _within("verify pass, TFLOP", ours.operations[0] / 1e12, 0.09, 2)
  memory, arithmetic = ours.memory_seconds[0], ours.arithmetic_seconds[0]
  yield _within("verify pass, ms of memory", memory * 1e3, 6.23, 2)
  yield _within("verify pass, ms of arithmetic", arithmetic * 1e3, 0.12, 2)
  printed = (0.98, 0.62, 0.45, 0.05)
  for row, (size, share) in enumerate(zip(batch, printed, strict=True)):
    place = f"batch {size}: idle share of the verify pass"
    yield _within(place, ours.idle_share[row], share, 2)
  share = SMALL.parameters / TARGET.parameters
  yield _within("0.6B draft: weights over the target's", share, 0.07, 2)
  target = roofline.cache_bytes(TARGET)
  for name, model in (("target", TARGET), ("0.6B", SMALL), ("1.7B", LARGE)):
    size = roofline.cache_bytes(model) / 1024
    printed = 144.0 if model is TARGET else 112.0
    yield _within(f"{name}: cache, KiB a token", size, printed, 0)
  share = roofline.cache_bytes(SMALL) / target
  yield _within("0.6B draft: cache over the target's", share, 0.78, 2)
  # One key-value head for each query head, were they not grouped.
  ungrouped = dataclasses.replace(TARGET, num_kv_heads=TARGET.num_heads)
  shrunk = roofline.cache_bytes(ungrouped) / target
  yield _within("grouped queries: cache shrinks", shrunk, 4.0, 0)


def _closed_forms() -> Iterator[Cell]:
  def cell(place: str, ours, printed: float, decimals: int) -> Cell:
    half = half_unit(decimals)
    return Cell(place, "formula", float(ours), printed, half)

  def tokens(gamma):
    return speedup.tokens_per_pass(FIRST, gamma)

  factor = speedup.operations_factor(FIRST, 4)
  yield cell("theorem 3.11, alpha 0.75, gamma 4", factor, 1.64, 2)
  most = speedup.most_tokens_per_pass(FIRST)
  yield cell("most tokens a pass, alpha 0.75", most, 4.0, 0)
  yield cell("tokens, gamma 4", tokens(4), 3.05, 2)
  yield cell("tokens, gamma 10", tokens(10), 3.83, 2)
  yield cell("tokens, gamma 10 over 4", tokens(10) / tokens(4) - 1, 0.26, 2)
  yield cell("tokens, gamma 17", tokens(17), 3.98, 2)
  survives = tokens(17) - tokens(16)
  yield cell("passes in which guess 17 is kept: one in", 1 / survives, 133.0, 0)
  factor = speedup.speedup(0.2, 3)
  yield cell("bigram draft, alpha 0.2, gamma 3: speedup", factor, 1.25, 2)


def _held(place: str, holds: bool, note: str) -> Cell:
  return Cell(
    f"{place} (1 is yes)", "formula", float(holds), 1.0, 0.0, note=note
  )


def _claims(settings: Settings) -> Iterator[Cell]:
  settings.say("simulating n-gram lookup")
  gains = [play(Case(batch, draft=None), 64)["speedup"] for batch in BATCHES]
  place = "n-gram: wins at every batch"
  yield _held(place, min(gains) > 1, f"least {min(gains):.2f}")
  short = Case(1024, draft=None, context=512)
  lost = play(short, 64)["speedup"]
  place = "n-gram, batch 1,024, context 512: loses"
  yield _held(place, lost < 1, f"{lost:.2f}")


def cells(settings: Settings) -> Iterator[Cell]:
  """Readouts of the simulation, then the pass and the closed forms."""
  yield from _simulated(settings)
  yield from _verify_pass()
  yield from _closed_forms()
  yield from _claims(settings)


def figures(settings: Settings) -> Iterator[Figure]:
  """The page's ladder: speedup by batch, of a draft and of lookup."""
  rows = 32 if settings.quick else 64
  curves = {}
  for name, draft in (("Qwen3-0.6B", SMALL), ("n-gram lookup", None)):
    settings.say(f"ladder of {name}")
    found = [play(Case(b, draft=draft), rows)["speedup"] for b in BATCHES]
    curves[name] = ([float(b) for b in BATCHES], found)
  yield Figure(
    "Qwen3-8B on an H100, gamma 4, context 2,048",
    "concurrent sequences",
    "speedup",
    curves,
    {
      "printed, Qwen3-0.6B": (
        [1.0, 32.0, 64.0, 1024.0],
        [1.94, 1.05, 0.88, 0.65],
      )
    },
    logx=True,
  )


PAPER = Paper(
  "serving_page",
  "Speculative Decoding Spends Arithmetic You May Not Have",
  "serving page, an interactive lesson",
  cells,
  figures,
)
