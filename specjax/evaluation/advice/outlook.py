"""What to draft with, how far, and above which batch not at all.

By the roofline, with every lane kept full. A user's speed is compared at one
batch; a device's throughput where each way of decoding runs as many sequences
as are there and as its memory holds, so that a draft pays for the room that it
takes. The rules of thumb that reasons refer to are those of the published
serving page.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from specjax.evaluation.roofline.cases import Acceptance, Case
from specjax.theory import positions, roofline, rounds

OBJECTIVES = ("latency", "throughput")
# A longer draft must bring this much more than a shorter one; lengths within
# the second are named as equally good.
_WORTH = 0.01
_ALIKE = 0.03
_MOST_ROWS = 65536


@dataclasses.dataclass(frozen=True)
class Candidate:
  """A drafter that is at hand.

  Attributes:
    case: with this drafter and its acceptance.
    assumed: whether the acceptance is a guess.
  """

  case: Case
  assumed: bool

  @property
  def name(self) -> str:
    return self.case.draft


@dataclasses.dataclass(frozen=True)
class Outlook:
  """What a candidate gives at the batch in question, and elsewhere.

  Attributes:
    gamma: the shortest length within 1 % of the best; 0 where none gains.
    alike: shortest and longest of the lengths within 3 % of the best.
    value: what the objective compares, over plain decoding; at gamma, or at the
      best length where none gains.
    draft_share: of the time of a round, at that length.
    fits: sequences that memory holds with this draft.
    off_above: the largest batch at which drafting gains and fits; 0 where none
      does, None where it gains as far as plain decoding fits.
    schedule: [first batch, last batch, length], 0 for off.
    at_capacity: throughput with each at its own largest batch, at that length.
    break_even: least acceptance of the first position that gains; None where
      none in [0, 1] does, or where the acceptance was recorded.
    kept: unconditional acceptance of each position up to the longest.
  """

  candidate: Candidate
  gamma: int
  alike: tuple[int, int]
  value: float
  draft_share: float
  fits: int
  off_above: int | None
  schedule: tuple[tuple[int, int, int], ...]
  at_capacity: float | None
  break_even: float | None
  kept: tuple[float, ...]

  def to_json(self) -> dict[str, Any]:
    """Its fields, with the candidate by name."""
    fields = dataclasses.asdict(self)
    del fields["candidate"]
    return {
      "name": self.candidate.name,
      "acceptance": self.candidate.case.acceptance.describe(),
      "assumed": self.candidate.assumed,
      **fields,
    }


def rows_that_fit(case: Case, *, draft: bool) -> int:
  """Sequences that memory holds, each with room for its last token."""
  with jax.enable_x64(True):
    found = rounds.largest_batch(
      case.target,
      case.drafter if draft else None,
      case.device,
      case.setup,
      float(case.context + case.new_tokens),
      case.memory_share,
    )
  return min(int(found), _MOST_ROWS)


def outlook(
  candidate: Candidate, objective: str, batch: int, longest: int
) -> Outlook:
  """Of one candidate; see `Outlook`."""
  case = candidate.case
  longest = case.longest(longest)
  plain_fits = rows_that_fit(case, draft=False)
  fits = rows_that_fit(case, draft=True)
  batches = np.arange(1, max(plain_fits, batch) + 1)
  values = _values(case, objective, batches, longest, fits, plain_fits)
  here = values[batch - 1]
  gamma, alike = _lengths(here)
  shown = gamma or int(here.argmax()) + 1
  best = [_lengths(row)[0] for row in values]
  gains = [size for size, length in zip(batches, best, strict=True) if length]
  off_above = int(max(gains)) if gains else 0
  kept = np.cumprod(case.acceptance.conditional(longest))
  full = dataclasses.replace(case, gamma=shown, load="full")
  at_most = _values(
    case, "throughput", np.asarray([plain_fits or 1]), longest, fits, plain_fits
  )[0, shown - 1]
  return Outlook(
    candidate=candidate,
    gamma=gamma,
    alike=alike,
    value=float(here[shown - 1]),
    draft_share=_draft_share(full, min(batch, max(fits, 1))),
    fits=fits,
    off_above=None if off_above >= len(batches) else off_above,
    schedule=_schedule(best),
    at_capacity=float(at_most) if plain_fits and fits else None,
    break_even=_break_even(case, objective, batch, longest, fits, plain_fits),
    kept=tuple(float(share) for share in kept),
  )


def _values(
  case: Case,
  objective: str,
  batches: np.ndarray,
  longest: int,
  fits: int,
  plain_fits: int,
) -> Float[np.ndarray, "B G"]:
  """Over plain decoding, by batch and by draft lengths 1 to `longest`.

  0 where the draft leaves no room.
  """
  ours, plain = batches, batches
  if objective == "throughput":
    ours, plain = np.minimum(batches, fits), np.minimum(batches, plain_fits)
  gammas = np.arange(1.0, longest + 1)[None]
  conditional = np.asarray(case.acceptance.conditional(longest), np.float64)
  with jax.enable_x64(True):
    tokens = np.asarray(positions.tokens_by_length(conditional))[None, 1:]
    found = rounds.speculative_round(
      case.target,
      case.drafter,
      case.device,
      case.setup,
      ours[:, None].astype(np.float64),
      case.mean_context,
      gammas,
      tokens,
    )
    rate = np.asarray(found.tokens_per_second)
    step = roofline.model_pass(
      case.target,
      case.device,
      case.setup,
      plain.astype(np.float64),
      case.mean_context,
    )
    plain_rate = plain / np.asarray(step.seconds)
  with np.errstate(invalid="ignore"):
    values = rate / plain_rate[:, None]
  room = (ours >= 1) & (ours <= fits) & (plain <= plain_fits) & (plain >= 1)
  return np.where(room[:, None], values, 0.0)


def _lengths(row: Float[np.ndarray, "G"]) -> tuple[int, tuple[int, int]]:
  """(the length to use or 0, shortest and longest of those alike)."""
  best = float(row.max())
  alike = np.flatnonzero(row >= best * (1 - _ALIKE)) + 1
  near = np.flatnonzero(row >= best / (1 + _WORTH)) + 1
  chosen = int(near[0]) if best > 1 else 0
  if chosen and row[chosen - 1] <= 1:
    chosen = int(row.argmax()) + 1
  return chosen, (int(alike[0]), int(alike[-1]))


def _schedule(best: Sequence[int]) -> tuple[tuple[int, int, int], ...]:
  """Runs of batches with one length."""
  found: list[tuple[int, int, int]] = []
  for batch, length in enumerate(best, 1):
    if found and found[-1][2] == length:
      found[-1] = (found[-1][0], batch, length)
    else:
      found.append((batch, batch, length))
  return tuple(found)


def _draft_share(case: Case, batch: int) -> float:
  with jax.enable_x64(True):
    found = rounds.speculative_round(
      case.target,
      case.drafter,
      case.device,
      case.setup,
      batch,
      case.mean_context,
      case.gamma,
      1.0,
    )
  return float(found.draft_share)


def _break_even(
  case: Case, objective: str, batch: int, longest: int, *room: int
) -> float | None:
  """Bisection: what drafting gives only rises with acceptance."""
  if case.acceptance.recorded is not None:
    return None

  def gains(first: float) -> bool:
    ratio = case.acceptance.ratio
    tried = dataclasses.replace(case, acceptance=Acceptance(first, ratio))
    one = np.asarray([batch])
    return bool(_values(tried, objective, one, longest, *room).max() > 1)

  if not gains(1.0):
    return None
  low, high = 0.0, 1.0
  for _ in range(12):
    middle = (low + high) / 2
    low, high = (low, middle) if gains(middle) else (middle, high)
  return high


def choose(
  candidates: Sequence[Candidate],
  objective: str,
  batch: int | None = None,
  longest: int = 10,
) -> tuple[Outlook, list[Outlook], int]:
  """The candidate that gives most, all of them, and the batch looked at.

  Args:
    batch: sequences that run together; None is one for latency, and as many as
      memory holds of plain decoding for throughput.

  Returns:
    The best may still be worse than plain decoding: its gamma is then 0.

  Raises:
    ValueError: no candidate, an unknown objective, or a target or batch that
      does not fit into memory.
  """
  if objective not in OBJECTIVES:
    raise ValueError(f"objective is latency or throughput, got {objective!r}")
  if not candidates:
    raise ValueError("no candidate is named")
  case = candidates[0].case
  room = rows_that_fit(case, draft=False)
  if not room:
    raise ValueError(
      f"the target and one sequence of {case.context} tokens do not fit into"
      f" {case.setup.ways} x {case.place}: try --chips or --weight_bits"
    )
  if batch is None:
    batch = 1 if objective == "latency" else room
  if batch > room:
    raise ValueError(
      f"{batch} sequences of {case.context} tokens do not fit into"
      f" {case.setup.ways} x {case.place}: {room} do"
    )
  found = [outlook(one, objective, batch, longest) for one in candidates]
  return max(found, key=lambda one: one.value), found, batch
