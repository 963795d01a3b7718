"""Runs the battery: python -m specjax.testing --drafter=ngram --rule=rejection.

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
from typing import Any

from specjax import acceptance
from specjax.testing.battery import CHECKS, run_check
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
    help=f"{', '.join(BUILT_IN)} or package.module:Name",
  )
  parser.add_argument("--rule", default="rejection", choices=acceptance.RULES)
  parser.add_argument(
    "--checks", default="", help="names of checks, comma-separated; all if none"
  )
  options = parser.parse_args(arguments)
  names = options.checks.split(",") if options.checks else list(CHECKS)
  results = []
  try:
    case = make_case(options.drafter, acceptance.make_rule(options.rule))
    claim = "lossless" if case.is_lossless else "lossy"
    print(f"{case.name}: claimed {claim}")
    for name in names:
      result = run_check(case, name)
      results.append(result)
      word = {True: "passed", False: "FAILED", None: "n/a"}[result.passed]
      print(
        f"{word:7}{name:26}{result.seconds:7.1f} s  {result.detail}", flush=True
      )
  except ValueError as error:
    parser.error(str(error))
  except KeyboardInterrupt:
    print(f"interrupted after {len(results)} of {len(names)} checks")
    return 130
  failed = sum(result.passed is False for result in results)
  total = sum(result.seconds for result in results)
  ran = sum(result.passed is not None for result in results)
  print(f"{ran - failed} of {ran} checks passed in {total:.0f} s")
  return 1 if failed else 0


if __name__ == "__main__":
  sys.exit(main())
