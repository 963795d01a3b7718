"""The battery over many pairs: a line of JSON each, and a table of them."""

import dataclasses
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from specjax import acceptance
from specjax.testing.battery import CheckResult, run_check
from specjax.testing.built_in import BUILT_IN
from specjax.testing.cases import Case, small_world


def exact_pairs(
  drafters: Sequence[str], rules: Sequence[str]
) -> Iterator[tuple[str, Case]]:
  """(the drafter's name, the case) of every pair that is exact.

  Args:
    drafters: keys of `BUILT_IN`.
    rules: names.
  """
  model, _ = small_world()
  for name in drafters:
    for rule in map(acceptance.make_rule, rules):
      case = BUILT_IN[name](rule)
      if acceptance.is_lossless(case.make(model, case.depth), rule):
        yield name, case


def run_pair(
  name: str,
  case: Case,
  checks: Sequence[str],
  say: Callable[[CheckResult], None],
) -> dict[str, Any]:
  """The record of a pair; each check is told of as it ends."""
  results = []
  for check in checks:
    results.append(run_check(case, check))
    say(results[-1])
  return {
    "drafter": name,
    "rule": case.rule.name,
    "lossless": case.is_lossless,
    "seconds": round(sum(result.seconds for result in results), 1),
    "checks": [dataclasses.asdict(result) for result in results],
  }


def read(path: Path) -> dict[tuple[str, str], dict[str, Any]]:
  """The records of a file by (drafter, rule), the latest of each.

  A line that a kill cut short is left out.
  """
  found = {}
  for line in path.read_text("utf-8").splitlines() if path.is_file() else ():
    try:
      record = json.loads(line)
    except ValueError:
      continue
    found[record["drafter"], record["rule"]] = record
  return found


def append(path: Path, record: dict[str, Any]) -> None:
  """Adds a line, behind whatever a kill left of the one before."""
  path.parent.mkdir(parents=True, exist_ok=True)
  cut = path.is_file() and not path.read_text("utf-8").endswith("\n")
  with path.open("a", encoding="utf-8") as file:
    file.write("\n" * cut + json.dumps(record) + "\n")


def has_passed(record: dict[str, Any], checks: Sequence[str]) -> bool:
  """Whether all the checks are in a record and none failed."""
  fates = {check["name"]: check["passed"] for check in record["checks"]}
  return all(fates.get(name, False) is not False for name in checks)


def lines(records: Sequence[dict[str, Any]]) -> Iterator[str]:
  """A table in Markdown: passed, not applicable, seconds, least reached."""
  yield "| drafter | rule | passed | n/a | failed | seconds | each outcome |"
  yield "| --- | --- | --- | --- | --- | --- | --- |"
  for record in records:
    fates = [check["passed"] for check in record["checks"]]
    failed = [c["name"] for c in record["checks"] if c["passed"] is False]
    reached = next(
      (c["detail"] for c in record["checks"] if c["name"] == "coverage"), ""
    )
    cells = (
      f"`{record['drafter']}`",
      f"`{record['rule']}`",
      str(fates.count(True)),
      str(fates.count(None)),
      ", ".join(failed) or "0",
      f"{record['seconds']:.0f}",
      reached.splitlines()[0] if reached else "",
    )
    yield "| " + " | ".join(cells) + " |"
