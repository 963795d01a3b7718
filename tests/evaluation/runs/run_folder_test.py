"""Whose a folder is."""

import json

import filelock
import pytest

from specjax.evaluation.runs import run_folder

CONFIG = {"model": "tiny", "temperatures": (0.0, 1.0)}
MACHINE = {"cpu": "one", "versions": {"jax": "1"}}


def claim(path, config=CONFIG, machine=MACHINE, **options):
  return run_folder.claim(path, config, machine, **options)


def test_the_same_run_goes_on(tmp_path):
  path = tmp_path / "deep" / "run"
  with claim(path, command="first"):
    (path / "records.jsonl").write_text('{"a": 1}\n{"b": ')
  with claim(path, command="second") as folder:
    assert folder.path == path
    assert (path / "records.jsonl").read_text() == '{"a": 1}\n'
  stated = run_folder.read_config(path)
  assert stated["command"] == "first"
  assert stated["config"] == json.loads(json.dumps(CONFIG))


@pytest.mark.parametrize(
  "config, machine, fault",
  [
    ({**CONFIG, "model": "big"}, MACHINE, 'model: "tiny" there, "big" now'),
    ({**CONFIG, "new": 1}, MACHINE, "new: null there, 1 now"),
    (CONFIG, {**MACHINE, "cpu": "two"}, 'cpu: "one" there, "two" now'),
    (
      CONFIG,
      {**MACHINE, "versions": {"jax": "2"}},
      r'run \(versions.jax: "1" there, "2" now\): choose another --output$',
    ),
  ],
)
def test_another_run_is_refused_and_what_differs_named(
  tmp_path, config, machine, fault
):
  with claim(tmp_path):
    (tmp_path / "records.jsonl").write_text("{}\n")
  with pytest.raises(ValueError, match=fault):
    with claim(tmp_path, config, machine):
      pass
  assert (tmp_path / "records.jsonl").exists()
  (tmp_path / "notes.txt").write_text("mine")
  with claim(tmp_path, config, machine, overwrite=True):
    assert not (tmp_path / "records.jsonl").exists()
  assert run_folder.read_config(tmp_path)["machine"] == machine
  assert (tmp_path / "notes.txt").exists()


def test_a_command_that_offers_it_says_so(tmp_path):
  with claim(tmp_path):
    pass
  with pytest.raises(ValueError, match="--output, or --overwrite it"):
    with claim(tmp_path, {}, overwrite=False):
      pass


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_of_other_things_is_left_alone(tmp_path, overwrite):
  (tmp_path / "table.txt").write_text("x")
  with pytest.raises(ValueError, match="holds 'table.txt' and is no folder"):
    with claim(tmp_path, overwrite=overwrite):
      pass
  assert (tmp_path / "table.txt").read_text() == "x"


def test_what_cannot_be_written_is_one_line(tmp_path):
  file = tmp_path / "file"
  file.write_text("")
  for path in (file, file / "below"):
    with pytest.raises(ValueError, match="cannot write to .*choose another"):
      with claim(path):
        pass


def test_two_runs_at_once_are_refused(tmp_path):
  with filelock.FileLock(tmp_path / ".lock"):
    with pytest.raises(ValueError, match="another run is writing"):
      with claim(tmp_path):
        pass


def test_a_broken_config_is_named(tmp_path):
  (tmp_path / "config.json").write_text("{")
  with pytest.raises(ValueError, match="is no folder of a run: config.json"):
    with claim(tmp_path):
      pass
