"""python -m specjax.testing."""

import pytest

from specjax import acceptance
from specjax.acceptance import Rejection
from specjax.testing import CHECKS, pairs
from specjax.testing.__main__ import main, make_case
from specjax.testing.built_in import BUILT_IN


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
    ("--drafter=a.b:C --rule=all", "goes with the drafters that have a name"),
  ],
)
def test_bad_arguments_are_one_line(argument, message, capsys):
  with pytest.raises(SystemExit) as stop:
    main(argument.split())
  assert stop.value.code == 2
  assert message in capsys.readouterr().err


def test_every_exact_pair_is_in_the_table():
  rules = list(acceptance.RULES)
  found = {
    (n, case.rule.name) for n, case in pairs.exact_pairs(list(BUILT_IN), rules)
  }
  assert ("eagle3", "block_verification") in found
  assert ("model_tree_iid", "kseq") in found
  assert ("model_tree", "kseq") not in found
  assert ("medusa_tree", "exact_match") in found
  assert {name for name, _ in found} == set(BUILT_IN)
  lossy = {n for n, rule in acceptance.RULES.items() if not rule().lossless_for}
  assert lossy and not {rule for _, rule in found} & lossy


def test_pairs_that_passed_are_not_checked_again(tmp_path, capsys, monkeypatch):
  calls = []

  def check(case):
    calls.append(case.name)
    assert case.rule.name != "exact_match", "no"
    return "fine | so far"

  monkeypatch.setitem(CHECKS, "joint", check)
  file = tmp_path / "new" / "pairs.jsonl"
  argv = ["--drafter=ngram", "--rule=all", "--checks=joint"]
  assert main([*argv, f"--output={file}"]) == 1
  first = capsys.readouterr().out
  assert "FAILED joint" in first and first.count("| `ngram` |") == len(calls)
  file.write_text(file.read_text() + '{"cut sho')
  monkeypatch.setitem(CHECKS, "joint", lambda case: "fine")
  before = len(calls)
  assert main([*argv, f"--output={file}"]) == 0
  again = capsys.readouterr().out
  assert again.count("passed before") == before - 1
  records = pairs.read(file)
  assert len(records) == before
  assert all(pairs.has_passed(r, ["joint"]) for r in records.values())
  assert not pairs.has_passed(records["ngram", "rejection"], ["joint", "edges"])


def test_classes_and_functions_from_outside():
  ngram = make_case("specjax.drafters.ngram:NGram", Rejection())
  assert ngram.name == "NGram/rejection" and ngram.best_weights is not None
  drafter = ngram.make(None, 5)
  assert drafter.num_speculative_tokens == 5
  model = make_case("specjax.drafters.draft_model:DraftModel", Rejection())
  assert model.draws_like_target
  case = make_case("specjax.testing.cases:model_case", Rejection())
  assert case.name == "model/rejection"
