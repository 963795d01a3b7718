"""Figures of one case, as JSON holds them; the page's script has the same."""

import dataclasses
import math
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from specjax.evaluation.roofline.cases import Case
from specjax.theory import batch_expectation, positions, roofline, rounds
from specjax.theory.batch_expectation import Expected
from specjax.theory.roofline import Pass

_OF_PASS = (
  "seconds",
  "memory_seconds",
  "arithmetic_seconds",
  "exchange_seconds",
  "bytes",
  "operations",
  "idle_share",
)


def figures(case: Case) -> dict[str, Any]:
  """All that is said of a case, in double precision.

  Returns:
    speedup: tokens a second of the batch over plain decoding's.
    row_speedup: of a row that waits for its own end; the same where the batch
      is kept full.
    seconds, plain_seconds: until all rows have their tokens.
    tokens_per_second, plain_tokens_per_second: of the batch; and of a device
      with _per_device.
    draft_share: of the time.
    operations_factor: arithmetic over plain decoding's.
    idle_share: of the target's passes, in which arithmetic waits.
    drafts, drafted, accepted: over all rows.
    acceptance_per_position: unconditional; draft_acceptance_rate: accepted over
      drafted; judged_acceptance_rate: accepted over judged.
    mean_acceptance_length: tokens a draft.
    verify, draft, plain: one pass with every row running, midway; a draft's is
      over one token of each row, or over all where heads guess them at once.
    capacity: see `capacity`.
  """
  with jax.enable_x64(True):
    played = _drains(case) if case.load == "drains" else _full(case)
    context = case.mean_context
    place = (case.device, case.setup)
    passes = {
      "verify": roofline.model_pass(
        case.target, *place, case.batch, context, case.gamma + 1
      ),
      "draft": rounds.draft_pass(
        case.drafter, *place, case.batch, context, case.gamma
      ),
      "plain": roofline.model_pass(case.target, *place, case.batch, context),
    }
    ways = case.setup.ways
    return {
      **played,
      "tokens_per_second_per_device": played["tokens_per_second"] / ways,
      "plain_tokens_per_second_per_device": played["plain_tokens_per_second"]
      / ways,
      **{name: _pass(value) for name, value in passes.items()},
      "capacity": capacity(case),
    }


def capacity(case: Case) -> dict[str, float | None]:
  """Rows that memory holds with and without the draft, and each one's speed.

  Every row is given room for its last token, and runs at that context. None
  where not one row fits.
  """
  with jax.enable_x64(True):
    found = rounds.at_capacity(
      case.target,
      case.drafter,
      case.device,
      case.setup,
      float(case.context + case.new_tokens),
      case.gamma,
      1 + float(_rates(case).sum()),
      case.memory_share,
    )._asdict()
  values = {name: float(value) for name, value in found.items()}
  return {n: v if math.isfinite(v) else None for n, v in values.items()}


def _drains(case: Case) -> dict[str, Any]:
  found = batch_expectation.expect(
    case.simulator, case.batch, case.context, case.new_tokens
  )
  return _described(found)


def _full(case: Case) -> dict[str, Any]:
  """Every row runs in every round, at the mean context."""
  tokens = 1 + float(_rates(case).sum())
  found = rounds.speculative_round(
    case.target,
    case.drafter,
    case.device,
    case.setup,
    case.batch,
    case.mean_context,
    case.gamma,
    tokens,
  )
  turns = case.new_tokens / tokens
  ways = case.setup.ways
  drafts = case.batch * turns
  seconds = turns * float(found.seconds)
  plain = case.new_tokens * float(found.plain.operations) * ways
  return _described(
    Expected(
      tokens=case.batch * case.new_tokens,
      drafts=drafts,
      accepted_at=drafts * _rates(case),
      seconds=seconds,
      draft_seconds=seconds * float(found.draft_share),
      arithmetic_seconds=turns * float(found.verify.arithmetic_seconds),
      verify_seconds=turns * float(found.verify.seconds),
      operations=plain * float(found.operations_factor),
      plain_seconds=case.new_tokens * float(found.plain.seconds),
      plain_operations=plain,
      rounds=turns,
      row_seconds=seconds,
    )
  )


def _rates(case: Case) -> Float[np.ndarray, "G"]:
  conditional = np.asarray(case.conditional, np.float64)
  return np.asarray(positions.unconditional(conditional))


def _described(found: Expected) -> dict[str, Any]:
  fields = dataclasses.asdict(found)
  kept = ("seconds", "plain_seconds", "row_seconds", "drafts", "rounds")
  return {
    "speedup": found.speedup,
    "row_speedup": found.row_speedup,
    **{name: fields[name] for name in kept},
    "tokens": found.tokens,
    "tokens_per_second": found.tokens_per_second,
    "plain_tokens_per_second": found.tokens / found.plain_seconds,
    "draft_share": found.draft_share,
    "operations_factor": found.operations_factor,
    "idle_share": found.idle_share,
    "drafted": found.drafted,
    "accepted": found.accepted,
    "acceptance_per_position": found.acceptance_per_position.tolist(),
    "draft_acceptance_rate": found.accepted / found.drafted,
    "judged_acceptance_rate": found.judged_acceptance_rate,
    "mean_acceptance_length": found.mean_acceptance_length,
  }


def _pass(value: Pass) -> dict[str, float | None]:
  """None where nothing runs, for an idle share of no time."""
  found = {name: float(getattr(value, name)) for name in _OF_PASS}
  return {n: v if math.isfinite(v) else None for n, v in found.items()}
