"""A case along each of its settings, for every drafter."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from specjax.evaluation.roofline.cases import Case
from specjax.evaluation.roofline.figures import figures
from specjax.evaluation.roofline.question import Question

_KEPT = (
  "speedup",
  "row_speedup",
  "tokens_per_second",
  "plain_tokens_per_second",
  "tokens_per_second_per_device",
  "plain_tokens_per_second_per_device",
  "draft_share",
  "operations_factor",
  "mean_acceptance_length",
)
AXES = ("batch", "gamma", "context")


def study(
  asked: Question,
  batches: Sequence[int],
  contexts: Sequence[int],
  longest: int,
) -> dict[str, Any]:
  """Figures of the case, and of its neighbours along each setting.

  Args:
    batches, contexts: to try; the case's own are added.
    longest: draft length to try, less where acceptance is not known so far.

  Returns:
    case: the settings in words; figures: see `figures`; log_line: as vLLM
    would print it.
    batch, gamma, context: {value, idle_share, fits, and the chief figures} of
    the case at each value; drafters: {name: {batch, gamma, context: the
    speedups, None where it has not so many heads}}; capacity: {name: see
    `figures.capacity`} of those that have.
    best_gamma: [of each batch], 0 where no draft length gains.
  """
  case = asked.case
  longest = case.longest(longest)
  axes = {
    "batch": sorted({*batches, case.batch}),
    "gamma": sorted({*range(1, longest + 1), case.gamma}),
    "context": sorted({*contexts, case.context}),
  }
  found = {
    name: {
      axis: [_at(asked.with_drafter(name), axis, value) for value in values]
      for axis, values in axes.items()
    }
    for name in asked.drafters
  }
  own = {
    axis: [r for r in rows if r] for axis, rows in found[case.draft].items()
  }
  chief = figures(case)
  return {
    "case": describe(asked),
    "figures": chief,
    "log_line": log_line(chief),
    **own,
    "best_gamma": [
      best_gamma(dataclasses.replace(case, batch=batch), longest)
      for batch in axes["batch"]
    ],
    "drafters": {
      name: {
        axis: [row and row["speedup"] for row in rows]
        for axis, rows in parts.items()
      }
      for name, parts in found.items()
    },
    "capacity": {
      name: figures(dataclasses.replace(asked.with_drafter(name), batch=1))[
        "capacity"
      ]
      for name in asked.drafters
      if asked.with_drafter(name).longest(case.gamma) == case.gamma
    },
  }


def _at(case: Case, axis: str, value: int) -> dict[str, Any] | None:
  batch, gamma, context = (
    value if axis == name else getattr(case, name) for name in AXES
  )
  if case.longest(gamma) < gamma:
    return None
  case = dataclasses.replace(case, batch=batch, gamma=gamma, context=context)
  found = figures(case)
  return {
    "value": value,
    **{name: found[name] for name in _KEPT},
    "idle_share": found["verify"]["idle_share"],
    "fits": case.batch <= found["capacity"]["batch"],
  }


def best_gamma(case: Case, longest: int) -> int:
  """The draft length of the largest speedup; 0 where none exceeds 1."""
  best, most = 0, 1.0
  for gamma in range(1, longest + 1):
    speedup = figures(dataclasses.replace(case, gamma=gamma))["speedup"]
    if speedup > most:
      best, most = gamma, speedup
  return best


def log_line(found: dict[str, Any]) -> str:
  """Of figures, as vLLM's SpecDecodingLogging would print them."""
  rates = ", ".join(f"{r:.3f}" for r in found["acceptance_per_position"])
  seconds = found["seconds"]
  return (
    "SpecDecoding metrics:"
    f" Mean acceptance length: {found['mean_acceptance_length']:.2f},"
    f" Accepted throughput: {found['accepted'] / seconds:.2f} tokens/s,"
    f" Drafted throughput: {found['drafted'] / seconds:.2f} tokens/s,"
    f" Accepted: {round(found['accepted'])} tokens,"
    f" Drafted: {round(found['drafted'])} tokens,"
    f" Per-position acceptance rate: {rates},"
    f" Avg Draft acceptance rate: {100 * found['draft_acceptance_rate']:.1f}%"
  )


def describe(asked: Question) -> dict[str, Any]:
  """The settings, as JSON holds them."""
  case = asked.case
  return {
    "target": asked.target,
    "draft": case.draft,
    "device": case.place,
    "device_source": case.device.source,
    "operations": case.device.operations,
    "bandwidth": case.device.bandwidth,
    "memory": case.device.memory,
    **dataclasses.asdict(case.setup),
    "acceptance": case.acceptance.describe(),
    "mode": asked.mode,
    "conditional": list(case.conditional),
    "batch": case.batch,
    "context": case.context,
    "new_tokens": case.new_tokens,
    "gamma": case.gamma,
    "load": case.load,
    "memory_share": case.memory_share,
  }
