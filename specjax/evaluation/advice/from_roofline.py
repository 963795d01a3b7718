"""Advice by the roofline, with its reasons and what it does not know."""

from collections.abc import Iterator, Sequence
from typing import Any

import jax

from specjax.evaluation.advice import outlook
from specjax.evaluation.advice.outlook import Candidate, Outlook
from specjax.evaluation.roofline.cases import Case
from specjax.theory import roofline, rounds

_FEW = 10  # sequences; "single digits" below
_RARE = 0.15  # a position kept less often costs a draft step for little


def advise(
  candidates: Sequence[Candidate],
  objective: str,
  batch: int | None = None,
  *,
  longest: int = 10,
  copies: bool = False,
  measured: bool = False,
) -> dict[str, Any]:
  """What to use and why.

  Args:
    batch: None where it is not known.
    copies: whether answers quote what they were given.
    measured: whether the device's peaks were.

  Returns:
    objective, batch, use ("none" for plain decoding), num_speculative_tokens,
    alike: lengths that give nearly the same; speedup: of what the objective
    compares; best_candidate: what is used, or would be at other batches;
    off_above, schedule: its; candidates: see `outlook.Outlook`; reasons,
    missing: a sentence each.

  Raises:
    ValueError: see `outlook.choose`.
  """
  best, found, size = outlook.choose(candidates, objective, batch, longest)
  return {
    "objective": objective,
    "source": "roofline",
    "batch": size,
    "use": best.candidate.name if best.gamma else "none",
    "num_speculative_tokens": best.gamma,
    "alike": list(best.alike) if best.gamma else None,
    "speedup": best.value if best.gamma else 1.0,
    "best_candidate": best.candidate.name,
    "off_above": best.off_above,
    "schedule": [list(part) for part in best.schedule],
    "reasons": list(_reasons(best, found, objective, size, copies)),
    "missing": list(_missing(found, batch, size, measured)),
    "candidates": [one.to_json() for one in found],
  }


def _reasons(
  best: Outlook,
  found: Sequence[Outlook],
  objective: str,
  batch: int,
  copies: bool,
) -> Iterator[str]:
  yield _idle(found[0].candidate.case, batch)
  yield _thumb(best, batch)
  for one in found:
    yield _of_candidate(one, objective, batch)
  if copies:
    yield (
      "answers copy their prompts: lookup is nearly free, and right on repeats"
    )
  if best.gamma:
    yield from _length(best)
    yield from _trade(best, objective)
  elif best.off_above:
    yield (
      f"plain decoding gives most here; {best.candidate.name} gains up to"
      f" {_count(best.off_above)}"
    )
  else:
    yield "plain decoding gives most at every batch"


def _idle(case: Case, batch: int) -> str:
  with jax.enable_x64(True):
    step = roofline.model_pass(
      case.target, case.device, case.setup, batch, case.mean_context
    )
    idle = float(step.idle_share)
  shown = f"{idle:.1%}" if idle > 0.99 else f"{idle:.0%}"
  return (
    f"a plain pass over {_count(batch)} leaves {shown} of"
    " the arithmetic idle; that is what drafts are checked with"
  )


def _thumb(best: Outlook, batch: int) -> str:
  if batch < _FEW:
    rule = "single digits: a large gain in latency, with a good draft model"
    agrees = best.gamma > 0
  else:
    rule = (
      "tens or hundreds: a drafter that costs nothing, γ 2 or 3; a separate"
      " model is unlikely to pay"
    )
    agrees = not best.gamma or not _is_model(best.candidate.case)
  verdict = "agrees" if agrees else "does NOT agree"
  return f"rule of thumb for {rule}; this arithmetic {verdict}"


def _is_model(case: Case) -> bool:
  """A separate model with a cache like the target's, not one layer on it."""
  model = case.drafter.model
  return model is not None and model.num_layers > 1


def _of_candidate(one: Outlook, objective: str, batch: int) -> str:
  case = one.candidate.case
  name, what = one.candidate.name, "a user's speed"
  if objective == "throughput":
    what = "the tokens a second"
  if not one.fits or (objective == "latency" and batch > one.fits):
    return f"{name}: with it only {_count(one.fits)} fit into memory"
  length = one.gamma or one.alike[0]
  words = f"{name}: {one.value:.2f} times {what} at γ {length}"
  words += f", acceptance {case.acceptance.describe()}"
  if case.drafter.model is None and case.drafter.once is None:
    return f"{words}; it has no weights and no cache"
  words += f"; {one.draft_share:.0%} of a round is drafting"
  if case.drafter.model is None:
    return f"{words}, in one pass without a cache"
  if case.drafter.cached:
    share = case.drafter.model.cache_values / case.target.cache_values
    words += f", its cache is {share:.0%} of the target's a token"
  return words


def _length(best: Outlook) -> Iterator[str]:
  low, high = best.alike
  if low != high:
    yield f"γ {low} to {high} give within 3 % of one another"
  if best.candidate.case.drafter == rounds.lookup():
    return
  rare = [i for i, share in enumerate(best.kept, 1) if share < _RARE]
  if rare and rare[0] > 1:
    share = best.kept[rare[0] - 1]
    yield (
      f"position {rare[0]} would be kept in {share:.0%} of the drafts, below"
      f" 15 %: end a draft at {rare[0] - 1}"
      + ("" if best.gamma <= rare[0] - 1 else ", were it not for this machine")
    )


def _trade(best: Outlook, objective: str) -> Iterator[str]:
  if best.at_capacity is None:
    return
  plain = outlook.rows_that_fit(best.candidate.case, draft=False)
  words = (
    f"a full device, each way at the most that memory holds ({best.fits} with"
    f" the draft, {plain} without), gives {best.at_capacity:.2f} times the"
    " tokens a second"
  )
  if objective == "latency" and best.at_capacity < 1:
    words += (
      ": a loss there, which is right where a user's speed is what counts"
    )
  yield words


def _missing(
  found: Sequence[Outlook], batch: int | None, size: int, measured: bool
) -> Iterator[str]:
  if batch is None:
    yield (
      f"the concurrency: {_count(size)} assumed; see off_above and schedule for"
      " others"
    )
  for one in found:
    if not one.candidate.assumed:
      continue
    words = f"acceptance of {one.candidate.name} on your traffic"
    words += f": {one.candidate.case.acceptance.describe()} is assumed"
    if one.break_even is None:
      words += ", and none would do here"
    elif one.break_even < 0.005:
      words += "; any at all gains here"
    else:
      words += f"; it gains here from {one.break_even:.2f}"
    yield words
  case = found[0].candidate.case
  if not measured:
    yield (
      f"what programs reach on {case.place}:"
      f" {case.setup.bandwidth_share:.0%} of the bandwidth and"
      f" {case.setup.operations_share:.0%} of the arithmetic are assumed"
    )
  yield (
    "a measurement: run the same load with and without drafting, at this"
    " concurrency"
  )


def _count(batch: int) -> str:
  return "1 sequence" if batch == 1 else f"{batch} sequences"
