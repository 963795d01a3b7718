"""Runs the battery: python -m specjax.testing --drafter=ngram --rule=rejection.

--drafter=all and --rule=all check every exact pair and end in a table.

A drafter from outside is given as package.module:Name. Name is either a
function that takes a rule and returns a specjax.testing.Case, or a drafter
class, which is then called with `num_speculative_tokens` and, where it has such
a field, `model`, a draft of the target's kind.
"""

import argparse
import dataclasses
import importlib
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from specjax import acceptance
from specjax.testing import pairs
from specjax.testing.battery import CHECKS, CheckResult
from specjax.testing.built_in import BUILT_IN
from specjax.testing.cases import Case, model_case, ngram_case, no_draft_weights
from specjax.types import Rule


def make_case(drafter: str, rule: Rule) -> Case:
  """The case of a built-in drafter, or of one given as package.module:Name.

  Raises:
    ValueError: no such drafter.
  """
  if drafter in BUILT_IN:
    return BUILT_IN[drafter](rule)
  module, _, name = drafter.partition(":")
  if not name:
    raise ValueError(
      f"unknown drafter {drafter!r}; choose from {', '.join(BUILT_IN)}, or give"
      " package.module:Name"
    )
  try:
    found = getattr(importlib.import_module(module), name)
  except (ImportError, AttributeError) as error:
    raise ValueError(f"cannot import {drafter!r}: {error}") from error
  if not inspect.isclass(found):
    return found(rule)
  label = f"{name}/{rule.name}"
  make: Any = found
  if not dataclasses.is_dataclass(found):
    raise ValueError(
      f"{drafter!r} is neither a frozen dataclass nor a function"
    )
  if "model" in {field.name for field in dataclasses.fields(found)}:
    return model_case(
      rule,
      name=label,
      make=lambda model, depth: make(model=model, num_speculative_tokens=depth),
    )
  return ngram_case(
    rule,
    name=label,
    make=lambda model, depth: make(num_speculative_tokens=depth),
    weights=no_draft_weights,
  )


def main(arguments: list[str] | None = None) -> int:
  """Prints what passed; the status is 1 where something failed."""
  parser = argparse.ArgumentParser(
    "python -m specjax.testing", description="Checks a drafter with a rule."
  )
  parser.add_argument(
    "--drafter",
    default="ngram",
    help=f"{', '.join(BUILT_IN)}, package.module:Name, or all",
  )
  parser.add_argument(
    "--rule", default="rejection", choices=(*acceptance.RULES, "all")
  )
  parser.add_argument(
    "--checks", default="", help="names of checks, comma-separated; all if none"
  )
  parser.add_argument(
    "--output",
    type=Path,
    help="JSONL of the pairs that were checked; those that passed there are not"
    " checked again",
  )
  options = parser.parse_args(arguments)
  names = options.checks.split(",") if options.checks else list(CHECKS)
  records = []
  try:
    if unknown := [name for name in names if name not in CHECKS]:
      raise ValueError(
        f"unknown check {unknown[0]!r}; choose from {', '.join(CHECKS)}"
      )
    for name, case in _cases(options.drafter, options.rule):
      records.append(_run(name, case, names, options.output))
  except ValueError as error:
    parser.error(str(error))
  except KeyboardInterrupt:
    print(f"interrupted after {len(records)} pairs")
    return 130
  if len(records) > 1:
    print("\n".join(pairs.lines(records)))
  return 0 if all(pairs.has_passed(record, names) for record in records) else 1


def _cases(drafter: str, rule: str) -> Iterator[tuple[str, Case]]:
  """The pair that was asked for, or all that are exact."""
  rules = list(acceptance.RULES) if rule == "all" else [rule]
  if drafter == "all" or (rule == "all" and drafter in BUILT_IN):
    names = list(BUILT_IN) if drafter == "all" else [drafter]
    yield from pairs.exact_pairs(names, rules)
    return
  if rule == "all":
    raise ValueError("--rule=all goes with the drafters that have a name")
  yield drafter, make_case(drafter, acceptance.make_rule(rule))


def _run(
  name: str, case: Case, checks: list[str], output: Path | None
) -> dict[str, Any]:
  if output is not None:
    known = pairs.read(output).get((name, case.rule.name))
    if known is not None and pairs.has_passed(known, checks):
      print(f"{case.name}: passed before")
      return known
  claim = "lossless" if case.is_lossless else "lossy"
  print(f"{case.name}: claimed {claim}")

  def say(result: CheckResult) -> None:
    word = {True: "passed", False: "FAILED", None: "n/a"}[result.passed]
    print(
      f"{word:7}{result.name:26}{result.seconds:7.1f} s  {result.detail}",
      flush=True,
    )

  record = pairs.run_pair(name, case, checks, say)
  if output is not None:
    pairs.append(output, record)
  fates = [check["passed"] for check in record["checks"]]
  ran = len(fates) - fates.count(None)
  print(
    f"{fates.count(True)} of {ran} checks passed in {record['seconds']:.0f} s",
    flush=True,
  )
  return record


if __name__ == "__main__":
  sys.exit(main())
