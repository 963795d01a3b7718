"""The roofline's commands on a run: its drafter, beside what it measured."""

import json

import pytest

from experiments import advise, roofline
from specjax.evaluation import records
from specjax.evaluation.records import Mode
from tests.made_answers import PLAIN, lookup, make_answer

# How ml_collections loads a config.
pytestmark = pytest.mark.filterwarnings(
  "ignore:the load_module:DeprecationWarning"
)

SIZES = """
from configs import roofline

def get_config():
  config = roofline.get_config()
  config.update(batches=(1, 4), contexts=(2048,), longest=4)
  return config
"""
LAYERS = Mode(
  "model k=3", "model", "rejection", True, 3, options={"draft_layers": 4}
)
ROUNDS = [(3, 3, 4, 4), (3, 1, 2, 4), (3, 0, 1, 4)] * 20
ENVIRONMENT = {"model": "smollm2-135m", "device": "cpu", "dtype": "float32"}


@pytest.fixture
def call(call_command, tmp_path):
  file = tmp_path / "sizes.py"
  file.write_text(SIZES)
  return lambda main, *argv: call_command(main, [f"--config={file}", *argv])


@pytest.fixture
def folder(tmp_path):
  path = tmp_path / "run"
  path.mkdir()
  for number in range(3):
    for mode, rounds in ((PLAIN, None), (lookup(3), ROUNDS), (LAYERS, ROUNDS)):
      answer = make_answer(
        mode,
        f"q{number}",
        rounds,
        category="chat",
        decode_s=0.1 + 0.01 * number,
        environment=ENVIRONMENT,
      )
      records.append(path / records.FILE, answer.to_json())
  return path


def test_a_study_has_the_drafter_of_the_mode(call, folder):
  from_run = f"--acceptance_from={folder}"
  status, out, err = call(roofline.main, from_run, "--mode=ngram k=3", "--json")
  assert status == 0, err
  case = json.loads(out)["case"]
  assert (case["target"], case["draft"]) == ("smollm2-135m", "ngram")
  assert (case["gamma"], case["mode"]) == (3, "ngram k=3")
  assert json.loads(out)["figures"]["draft_share"] == 0
  status, out, err = call(roofline.main, from_run, "--draft=layers:4")
  assert status == 0, err
  assert "layers:4 drafting 3" in out and ", of model k=3;" in out
  assert max(map(len, out.splitlines())) <= 80


def test_measured_beside_predicted(call, folder, tmp_path):
  argv = (f"--acceptance_from={folder}", "--categories=chat")
  argv += ("--devices=h100,tpu-v4", "--batches=1,8")
  output = f"--output={tmp_path / 'out'}"
  status, out, err = call(roofline.main, *argv, "--json", output)
  assert status == 0, err
  found = json.loads(out)
  assert json.loads((tmp_path / "out" / "roofline.json").read_text()) == found
  drafts = {one["mode"]: one["draft"] for one in found["modes"]}
  assert drafts == {"ngram k=3": "ngram", "model k=3": "layers:4"}
  lookups, layers = found["modes"]
  assert lookups["measured"]["estimate"] == pytest.approx(14)
  rows = [(row["device"], row["batch"]) for row in layers["predicted"]]
  assert rows == [("h100", 1), ("h100", 8), ("tpu-v4", 1), ("tpu-v4", 8)]
  for dear, free in zip(layers["predicted"], lookups["predicted"], strict=True):
    assert dear["draft_share"] > 0.1 and free["draft_share"] == 0
    assert dear["estimate"] < free["estimate"]
  status, out, err = call(roofline.main, *argv)
  assert status == 0, err
  assert "model k=3, layers:4: 3 prompts" in out
  assert "measured, cpu, float32" in out and "tpu-v4" in out
  assert max(map(len, out.splitlines())) <= 80


def test_advice_has_the_drafters_of_the_run(call, folder):
  status, out, err = call(
    advise.main, f"--acceptance_from={folder}", "--objective=latency", "--json"
  )
  assert status == 0, err
  found = json.loads(out)
  assert [one["name"] for one in found["candidates"]] == ["ngram", "layers:4"]
  assert not any(one["assumed"] for one in found["candidates"])
  assert found["use"] == "ngram"


@pytest.mark.parametrize(
  "main, argv, error",
  [
    (roofline.main, (), "name a mode of the run: ngram k=3, model k=3"),
    (roofline.main, ("--draft=qwen3-0.6b",), "drafted in no mode of"),
    (roofline.main, ("--devices=h100", "--gamma=2"), "takes no --gamma"),
    (roofline.main, ("--ratio=0.5",), "--acceptance_from takes no --ratio"),
    (advise.main, ("--objective=latency", "--mode=x"), "no --mode"),
    (roofline.main, ("--devices=h100", "--batches=x"), "whole numbers"),
    (roofline.main, ("--devices=h100", "--categories=math"), "class 'math'"),
    (
      advise.main,
      ("--objective=latency", "--candidates=head"),
      "no candidate of head drafted",
    ),
  ],
)
def test_what_is_refused(call, folder, main, argv, error):
  status, out, err = call(main, f"--acceptance_from={folder}", *argv)
  assert status == 1 and out == ""
  assert err.startswith("error: ") and error in err and err.count("\n") == 1


@pytest.mark.parametrize(
  "argv, error",
  [
    (("--devices=h100",), "--devices shows a run: give --acceptance_from"),
    (("--categories=chat",), "--categories is of a run"),
    (("--mode=x",), "--mode is of a run"),
  ],
)
def test_what_needs_a_run(call, argv, error):
  status, _, err = call(roofline.main, *argv)
  assert status == 1 and error in err
