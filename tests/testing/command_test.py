"""python -m specjax.testing."""

import pytest

from specjax.acceptance import Rejection
from specjax.testing import CHECKS
from specjax.testing.__main__ import main, make_case


def test_a_passing_check_has_status_0(capsys):
  arguments = ["--drafter=ngram", "--rule=rejection", "--checks=streams"]
  assert main(arguments) == 0
  out = capsys.readouterr().out
  assert "claimed lossless" in out and "1 of 1 checks passed" in out


def test_a_failing_check_has_status_1(capsys, monkeypatch):
  def wrong(case):
    raise AssertionError("counts differ")

  monkeypatch.setitem(CHECKS, "joint", wrong)
  assert main(["--drafter=model", "--checks=joint,exact_tables"]) == 1
  out = capsys.readouterr().out
  assert "FAILED" in out and "counts differ" in out and "n/a" in out


@pytest.mark.parametrize(
  "argument, message",
  [
    ("--drafter=magic", "unknown drafter 'magic'"),
    ("--drafter=no.such:Thing", "cannot import"),
    ("--checks=nonsense", "unknown check"),
  ],
)
def test_bad_arguments_are_one_line(argument, message, capsys):
  with pytest.raises(SystemExit) as stop:
    main([argument])
  assert stop.value.code == 2
  assert message in capsys.readouterr().err


def test_classes_and_functions_from_outside():
  ngram = make_case("specjax.drafters.ngram:NGram", Rejection())
  assert ngram.name == "NGram/rejection" and ngram.best_weights is not None
  drafter = ngram.make(None, 5)
  assert drafter.num_speculative_tokens == 5
  model = make_case("specjax.drafters.draft_model:DraftModel", Rejection())
  assert model.draws_like_target
  case = make_case("specjax.testing.cases:model_case", Rejection())
  assert case.name == "model/rejection"
