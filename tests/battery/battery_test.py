"""Every drafter with every rule goes through the one battery."""

import pytest

from specjax import acceptance
from specjax.testing import (
  CHECKS,
  NotApplicable,
  check_case,
  model_case,
  ngram_case,
)

CASES = [
  make(acceptance.make_rule(rule))
  for make in (ngram_case, model_case)
  for rule in ("rejection", "exact_match")
]
# Of a rule of which tests of its own say the rest.
BLOCKS = model_case(acceptance.BlockVerification())
MORE = [(BLOCKS, check) for check in ("joint", "edges")]
LAW = ("joint", "by_offset", "coverage")  # of 131,072 rows
TOLD = {  # What another of the four cases says already.
  # Recitals know no drafter; without jit, each drafter and each rule runs once.
  "ngram/exact_match": {"streams", "without_jit"},
  "model/rejection": {"streams", "without_jit", "greedy_nets_every_offset"},
  # Where the tokens are plain decoding's, their law is.
  "model/exact_match": {
    *LAW,
    "streams",
    "greedy_nets_every_offset",
    "exact_nets",
  },
}


def _runs():
  """Each case with each check that adds something."""
  pairs = [
    (case, check)
    for case in CASES
    for check in CHECKS
    if check not in TOLD.get(case.name, ())
  ]
  for case, check in pairs + MORE:
    marks = [pytest.mark.runs_long] if check in LAW else []
    yield pytest.param(case, check, marks=marks, id=f"{case.name}-{check}")


@pytest.mark.parametrize("case, check", [*_runs()])
def test_battery(case, check):
  try:
    check_case(case, check)
  except NotApplicable as reason:
    assert (case.name, check) in NOT_APPLICABLE, str(reason)
  else:
    assert (case.name, check) not in NOT_APPLICABLE


NOT_APPLICABLE = {
  (name, check)
  for name in ("ngram/rejection", "model/rejection")
  for check in ("exact_tables", "exact_nets")
}
