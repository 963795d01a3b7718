"""The alignment notes: hand example, best lengths, bigram run, batch figures.

Its toy runs come without a seed and its step-time model without constants. Both
are recovered from what it prints: numpy's default generator at seed 0, logits
drawn before the noise, gives its mean acceptance and its whole formula column;
the step time is a fit and says so. Its run on re-aligning a stale draft does
not state the laws or the training, so it has no cells.
"""

import dataclasses
import functools
from collections.abc import Iterator

import numpy as np
from jaxtyping import Float
from scipy import special

from specjax.acceptance import make_rule
from specjax.evaluation.reproduction import bigram_loop
from specjax.evaluation.reproduction.bigram_loop import Loop
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
  block,
  devices,
  positions,
  rounds,
  shapes,
  speedup,
)
from specjax.theory.roofline import Setup

P, Q = np.asarray([0.6, 0.3, 0.1]), np.asarray([0.3, 0.6, 0.1])
DRAFT_COST = 0.05
# alpha: best length and its speedup.
BEST = {0.5: (3, 1.63), 0.7: (6, 2.35), 0.8: (8, 3.09), 0.9: (13, 4.67)}
# Draft length: measured tokens a pass, and the formula's.
TOKENS = {
  1: (1.634, 1.638),
  2: (2.038, 2.044),
  3: (2.297, 2.303),
  4: (2.472, 2.469),
  6: (2.645, 2.641),
  8: (2.707, 2.712),
}
ALPHA = 0.638
SIZE = 32  # tokens of the toy run
RULE = "rejection"
GENERATIONS = 60_000
VARIATION, PLAIN_VARIATION = 0.0101, 0.0089
SPEEDUPS = {1: 1.90, 64: 1.81, 128: 1.49, 256: 1.25}  # by batch
FIT_TOLERANCE = 0.05
FIT = (
  "a fit, not the document's own constants: 0.3 ms + max(bytes / 2.6 TB/s,"
  " operations / (221 tokens' ridge)), context 1,024"
)
# Ridge of 221 operations a byte; bandwidth and fixed part are fitted.
CHIP = devices.Device(221 * 2.6e12, 2.6e12, 80e9, 0.0, "fitted")
SETUP = Setup(fixed_seconds=0.3e-3)
CONTEXT = 1024


def _hand_example(settings: Settings) -> Iterator[Cell]:
  place = "hand example"

  def exact(what: str, ours, printed: float) -> Cell:
    note = "printed exactly: 1e-6 allowed"
    return Cell(
      f"{place}: {what}", "formula", float(ours), printed, 1e-6, note=note
    )

  yield exact("beta", acceptance.acceptance(P, Q), 0.7)
  yield exact("chance to keep B", np.minimum(1, P / Q)[1], 0.5)
  left = acceptance.residual(P, Q)
  law = acceptance.lenient_law(P, Q, 1.0)
  for token, name in enumerate("ABC"):
    yield exact(f"residual of {name}", left[token], (1.0, 0.0, 0.0)[token])
    yield exact(f"Pr[{name}]", law[token], (0.6, 0.3, 0.1)[token])
  size = 20_000 if settings.quick else GENERATIONS
  p, q = (np.tile(law, (len(law), 1)) for law in (P, Q))
  played = Loop(p, q, make_rule(RULE), longest=3).run(
    size, 0, num_speculative_tokens=1, length=4, seed=settings.seed
  )
  shares = np.bincount(played.tokens[:, 0], minlength=3) / size
  for token, name in enumerate("ABC"):
    yield Cell(
      f"{place}: Pr[{name}] through the loop",
      "sampler",
      float(shares[token]),
      (0.6, 0.3, 0.1)[token],
      4 * float(np.sqrt(P[token] * (1 - P[token]) / size)),
      note=f"{size:,} generations; tolerance of 4 standard errors",
    )


def _best_lengths() -> Iterator[Cell]:
  for alpha, (length, factor) in BEST.items():
    ours, gain = speedup.best_length(alpha, DRAFT_COST, 40)
    place = f"section 3, c {DRAFT_COST}, alpha {alpha}"
    yield Cell(
      f"{place}: best gamma", "formula", float(ours), float(length), 0.5
    )
    yield Cell(
      f"{place}: speedup", "formula", float(gain), factor, half_unit(2)
    )


@functools.cache
def bigram_laws() -> tuple[Float[np.ndarray, "V V"], Float[np.ndarray, "V V"]]:
  """The toy run's target and draft, 32 tokens, a row a context."""
  rng = np.random.default_rng(0)
  logits = rng.normal(0, 2.0, (SIZE, SIZE))
  noisy = logits + rng.normal(0, 1.2, logits.shape)
  return special.softmax(logits, -1), special.softmax(noisy, -1)


def _stationary(p: Float[np.ndarray, "V V"]) -> Float[np.ndarray, "V"]:
  law = np.full(len(p), 1 / len(p))
  for _ in range(500):
    law = law @ p
  return law / law.sum()


def _toy_tokens(settings: Settings) -> Iterator[Cell]:
  p, q = bigram_laws()
  law = _stationary(p)
  alpha = float(law @ np.asarray(acceptance.acceptance(p, q)))
  recovered = "laws from numpy's default generator at seed 0, recovered"
  place = "toy run, 32 tokens"
  yield Cell(
    f"{place}: alpha", "formula", alpha, ALPHA, half_unit(3), note=recovered
  )
  first = 4  # by when the context is that of a long run
  loop = Loop(p, q, make_rule(RULE))
  for gamma, (measured, formula) in TOKENS.items():
    settings.say(f"bigram run, gamma {gamma}")
    yield Cell(
      f"{place}, gamma {gamma}: formula",
      "formula",
      float(speedup.tokens_per_pass(alpha, gamma)),
      formula,
      half_unit(3),
      note=f"at the unrounded alpha; {recovered}",
    )
    exact = float(block.long_run_tokens(p, q, gamma))
    yield Cell(
      f"{place}, gamma {gamma}: measured, exact mean of a long run",
      "formula",
      exact,
      measured,
      0.005,
      relative=True,
      note="the document measured a run of unstated length: 0.5 % allowed",
    )
    played = loop.run(
      start=0,
      num_speculative_tokens=gamma,
      seed=settings.seed,
      **bigram_loop.sizes_of(settings),
    )
    kept = played.accepted[:, first:]
    error = float(kept.std() / np.sqrt(kept.size))
    yield Cell(
      f"{place}, gamma {gamma}: measured, through the loop",
      "sampler",
      1 + float(kept.mean()),
      measured,
      0.005 * measured + 2 * error,
      note=(
        f"{kept.size:,} rounds; 0.5 % for the document's run of unstated length"
        " and 2 standard errors of ours"
      ),
    )


def _variation_noise(law, seed: int) -> tuple[float, float]:
  """Mean and spread of the total variation of so many exact samples."""
  drawn = np.random.default_rng(seed).multinomial(GENERATIONS, law, 400)
  found = 0.5 * np.abs(drawn / GENERATIONS - law).sum(1)
  return float(found.mean()), float(found.std())


def _exactness(settings: Settings) -> Iterator[Cell]:
  p, q = bigram_laws()
  law = np.linalg.matrix_power(p, 3)[0]
  mean, spread = _variation_noise(law, settings.seed)
  loop = Loop(p, q, make_rule(RULE), longest=4)
  note = (
    f"{GENERATIONS:,} generations; exact samples are at {mean:.4f} +-"
    f" {spread:.4f}, and two runs differ by up to 3 sqrt(2) of that"
  )
  for name, gamma, printed in (
    ("speculative, gamma 4", 4, VARIATION),
    ("plain", 0, PLAIN_VARIATION),
  ):
    settings.say(f"third token, {name}")
    played = loop.run(
      GENERATIONS,
      0,
      num_speculative_tokens=gamma,
      length=3,
      seed=settings.seed,
    )
    third = np.bincount(played.tokens[:, 2], minlength=len(law))
    yield Cell(
      f"toy run, third token: total variation, {name}",
      "sampler",
      float(0.5 * np.abs(third / GENERATIONS - law).sum()),
      printed,
      3 * float(np.sqrt(2)) * spread,
      note=note,
    )


def _shape(name: str) -> shapes.ModelShape:
  """Arithmetic of attention is left out, as the fit does."""
  return dataclasses.replace(shapes.shape_of(PRESETS[name]), num_heads=0)


def play_batch(alpha: float, gamma: int, batch) -> rounds.Round:
  """The fitted step times at some batches, Llama-3.1-8B and 3.2-1B."""
  tokens = positions.expected_tokens(positions.falling(alpha, 1.0, gamma))
  return rounds.speculative_round(
    _shape("llama-3.1-8b"),
    rounds.separate(_shape("llama-3.2-1b")),
    CHIP,
    SETUP,
    batch,
    CONTEXT,
    gamma,
    tokens,
  )


def _batches() -> Iterator[Cell]:
  def fitted(place: str, ours, printed: float) -> Cell:
    return Cell(
      place, "formula", float(ours), printed, FIT_TOLERANCE, True, FIT
    )

  batch = np.asarray([*SPEEDUPS])
  ours = play_batch(0.8, 4, batch)
  step = ours.plain.seconds[0]
  yield fitted("batch 1: step of the 8B target, ms", step * 1e3, 6.5)
  yield fitted("batch 1: c", ours.draft.seconds[0] / step, 0.19)
  for row, (size, printed) in enumerate(SPEEDUPS.items()):
    place = f"figure 3, alpha 0.8, gamma 4, batch {size}: speedup"
    yield fitted(place, ours.speedup[row], printed)
  ratio = ours.verify.seconds[-1] / ours.plain.seconds[-1]
  yield fitted("batch 256, gamma 4: verification in decode steps", ratio, 1.76)
  place = "figure 3, alpha 0.6, gamma 4, batch 256: speedup"
  yield fitted(place, play_batch(0.6, 4, 256).speedup, 0.86)
  longer = float(play_batch(0.8, 8, 256).speedup)
  yield Cell(
    "figure 3, alpha 0.8, gamma 8, batch 256: below 1 (1 is yes)",
    "formula",
    float(longer < 1),
    1.0,
    0.0,
    note=f"{longer:.2f}; {FIT}",
  )


def cells(settings: Settings) -> Iterator[Cell]:
  """Section by section."""
  yield from _hand_example(settings)
  yield from _best_lengths()
  yield from _batches()
  yield from _toy_tokens(settings)
  yield from _exactness(settings)


def figures(settings: Settings) -> Iterator[Figure]:
  """Figure 2, speedup by length, and figure 3, speedup by batch."""
  del settings
  lengths = np.arange(17.0)
  yield Figure(
    f"Speedup by draft length, c = {DRAFT_COST}",
    "gamma",
    "speedup",
    {
      f"alpha {alpha}": (
        lengths.tolist(),
        np.asarray(speedup.speedup(alpha, lengths, DRAFT_COST)).tolist(),
      )
      for alpha in BEST
    },
    {
      "printed optima": (
        [float(length) for length, _ in BEST.values()],
        [factor for _, factor in BEST.values()],
      )
    },
  )
  batch = np.asarray([1.0, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256])
  yield Figure(
    "Speedup by batch: 8B target, 1B draft, fitted step times",
    "batch",
    "speedup",
    {
      f"alpha {alpha}, gamma {gamma}": (
        batch.tolist(),
        np.asarray(play_batch(alpha, gamma, batch).speedup).tolist(),
      )
      for alpha, gamma in ((0.8, 4), (0.8, 8), (0.6, 4))
    },
    {
      "printed, alpha 0.8, gamma 4": (
        [float(b) for b in SPEEDUPS],
        [*SPEEDUPS.values()],
      )
    },
    logx=True,
  )


PAPER = Paper(
  "alignment_notes",
  "Speculative decoding with draft models, explained",
  "alignment notes, an article",
  cells,
  figures,
)
