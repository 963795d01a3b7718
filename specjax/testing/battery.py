"""One battery of checks that every drafter and rule goes through."""

import dataclasses
import time
import traceback
from collections.abc import Callable, Iterable

from specjax.testing import check_identity, check_law, check_loop, check_rows
from specjax.testing.cases import Case, NotApplicable

CHECKS: dict[str, Callable[[Case], str]] = {
  check.__name__: check
  for check in (
    check_identity.greedy_tables,
    check_identity.greedy_alone,
    check_identity.greedy_nets,
    check_identity.greedy_nets_every_offset,
    check_identity.exact_tables,
    check_identity.exact_nets,
    check_identity.fewest_rounds,
    check_law.joint,
    check_law.by_offset,
    check_law.coverage,
    check_law.edges,
    check_law.streams,
    check_rows.ragged_tables,
    check_rows.ragged_nets,
    check_rows.late_rows,
    check_rows.done_rows,
    check_rows.limits,
    check_rows.full_prompt,
    check_rows.end_of_text,
    check_loop.seeds,
    check_loop.repeats,
    check_loop.one_at_a_time,
    check_loop.without_jit,
    check_loop.dispatches,
  )
}


@dataclasses.dataclass(frozen=True)
class CheckResult:
  """What a check found; `passed` is None where it does not apply."""

  name: str
  passed: bool | None
  seconds: float
  detail: str


def run_check(case: Case, name: str) -> CheckResult:
  """Runs one check; a failure is a result, an error too.

  Raises:
    ValueError: no such check.
  """
  if name not in CHECKS:
    raise ValueError(f"unknown check {name!r}; choose from {', '.join(CHECKS)}")
  begin = time.perf_counter()
  passed: bool | None = False
  try:
    detail, passed = CHECKS[name](case), True
  except NotApplicable as reason:
    detail, passed = str(reason), None
  except AssertionError as failure:
    detail = str(failure) or traceback.format_exc(limit=-1)
  except Exception as error:
    detail = "".join(traceback.format_exception(error))
  return CheckResult(name, passed, time.perf_counter() - begin, detail)


def run_battery(
  case: Case, checks: Iterable[str] | None = None
) -> list[CheckResult]:
  """Runs the named checks, all by default, in the battery's order."""
  names = CHECKS if checks is None else checks
  return [run_check(case, name) for name in names]


def check_case(case: Case, name: str) -> str:
  """One check as a test: returns its detail.

  Raises:
    AssertionError: it failed.
    NotApplicable: it says nothing about this pair.
  """
  return CHECKS[name](case)
