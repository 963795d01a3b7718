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


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
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
