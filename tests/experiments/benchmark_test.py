"""The benchmark command on a tiny model: what it writes, survives, refuses."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import jax
import pytest

from experiments import benchmark, benchmark_settings, config_file
from specjax.evaluation import records
from specjax.evaluation.figures import plots
from specjax.evaluation.runs import decoders

# How ml_collections loads a config.
pytestmark = pytest.mark.filterwarnings(
  "ignore:the load_module:DeprecationWarning"
)

ROOT = pathlib.Path(__file__).resolve().parents[2]
QUESTIONS = [
  {"question_id": 81, "category": "writing", "turns": ["abab", "cd"]},
  {"question_id": 82, "category": "math", "turns": ["1 2 1 2"]},
  {"question_id": "b", "category": "b", "turns": ["xyxy"], "begun": "xy"},
]


@pytest.fixture
def prompts(tmp_path):
  file = tmp_path / "question.jsonl"
  file.write_text("".join(json.dumps(q) + "\n" for q in QUESTIONS))
  return file


@pytest.fixture
def bench(run, tiny, tmp_path, prompts, monkeypatch):
  """Calls the command with a config of some fields; pictures take seconds."""

  def call(*argv, output="out", pictures=False, **fields):
    if not pictures:
      monkeypatch.setattr(plots, "draw", lambda *_: [])
    given = arguments(tmp_path, tiny, output, fields)
    return run(benchmark.main, *given, *argv)

  return call


def arguments(tmp_path, model, output, fields):
  values = {
    "prompt_file": str(tmp_path / "question.jsonl"),
    "model": model,
    "max_new_tokens": 16,
    "drafters": ("ngram",),
    "costs": False,
    **fields,
  }
  file = tmp_path / "config.py"
  file.write_text(
    "from ml_collections import config_dict\n"
    f"def get_config():\n  return config_dict.create(**{values!r})\n"
  )
  return f"--config={file}", f"--output={tmp_path / output}", "--traces=0"


def test_a_run_writes_all_there_is_to_see(bench, tmp_path):
  got = bench(
    "--json", "--traces=1", "--route=a", pictures=True, costs=True, repeats=2
  )
  assert got.status == 0, got.err
  (summary,) = got.records
  out = tmp_path / "out"
  assert json.loads((out / "summary.json").read_text()) == summary
  assert [e["mode"]["name"] for e in summary["modes"]] == ["none", "ngram k=7"]
  assert summary["environment"]["route"] == "a"
  lookup = summary["modes"][1]
  assert lookup["answers"] == 8
  assert lookup["identity"]["equal"] == lookup["identity"]["compared"] == 8
  assert lookup["pooled"]["predicted_over_measured"] > 0
  names = {path.name for path in out.iterdir() if path.name != ".lock"}
  assert names == {
    "answers",
    "config.json",
    "costs.jsonl",
    "metrics.prom",
    "near_ties.json",
    "plots",
    "records.jsonl",
    "report.html",
    "requests.jsonl",
    "summary.json",
    "table.tex",
    "table.txt",
    "traces.jsonl",
    "vllm.log",
  }
  traced = records.read_lines(out / "traces.jsonl")
  answers = {a.key: a for a in records.read(out)}
  assert [t["mode"] for t in traced] == ["none", "ngram k=7"]
  for trace in traced:
    one = answers[trace["mode"], trace["question_id"], 0, 0]
    emitted = [e["token"] for r in trace["rounds"] for e in r["emitted"]]
    assert tuple(emitted) == one.token_ids and trace["text"] == one.text
  costs = records.read_lines(out / "costs.jsonl")
  passes = [c for c in costs if c["part"] == "pass"]
  assert {c["width"] for c in passes} == {1, 8}
  contexts = {c["context"] for c in passes}
  assert len(passes) == 8 * 2 * len(contexts)


def test_a_table_for_people_and_the_report_again(bench, tmp_path):
  got = bench()
  assert got.status == 0, got.err
  assert "speedup" in got.out and "ngram k=7" in got.out
  assert "[8/8]" in got.err and got.err.startswith("loading")
  out = tmp_path / "out"
  (out / "summary.json").unlink()
  again = bench("--report_only", "--json")
  assert "loading" not in again.err
  assert json.loads((out / "summary.json").read_text()) == again.records[0]


def _keys(folder):
  return [answer.key for answer in records.read(folder)]


def test_kill_9_in_the_middle_loses_nothing_that_was_measured(
  bench, tiny, tmp_path
):
  fields = {"repeats": 5}
  argv = arguments(tmp_path, tiny, "out", fields)
  process = subprocess.Popen(
    [
      sys.executable,
      "-m",
      "experiments.benchmark",
      *argv,
      "--compilation_cache=",
    ],
    cwd=ROOT,
    stderr=subprocess.PIPE,
  )
  file = tmp_path / "out" / records.FILE
  until = time.monotonic() + 120
  while time.monotonic() < until and process.poll() is None:
    if file.exists() and file.read_bytes().count(b"\n") >= 3:
      break
    time.sleep(0.01)
  process.kill()
  process.communicate()
  assert process.returncode == -signal.SIGKILL
  with open(file, "a") as cut:
    cut.write('{"mode": {"na')
  first = _keys(file)
  assert 3 <= len(first) < 40
  got = bench(**fields)
  assert got.status == 0, got.err
  keys = _keys(file)
  assert keys[: len(first)] == first
  assert len(keys) == len(set(keys)) == 2 * 4 * 5


def _stop_after(monkeypatch, count, error):
  calls, original = [], decoders.OwnDecoder.decode

  def decode(self, *arguments):
    calls.append(self.mode.name)
    if len(calls) > count:
      raise error
    return original(self, *arguments)

  monkeypatch.setattr(decoders.OwnDecoder, "decode", decode)
  return calls


def test_control_c_writes_what_there_is(bench, tmp_path, monkeypatch):
  with monkeypatch.context() as patched:
    _stop_after(patched, 5, KeyboardInterrupt())
    got = bench("--json")
  assert got.status == 130
  assert got.err.splitlines()[-1] == (
    "interrupted; 5 of 8 answers; run the same command to go on"
  )
  assert sum(e["answers"] for e in got.records[0]["modes"]) == 5
  calls = _stop_after(monkeypatch, 99, None)
  got = bench("--json")
  assert got.status == 0 and len(calls) == 3
  assert [e["answers"] for e in got.records[0]["modes"]] == [4, 4]


def test_a_lack_of_memory_says_what_to_lower(bench, tmp_path, monkeypatch):
  full = jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory")
  _stop_after(monkeypatch, 2, full)
  got = bench()
  assert got.status == 1
  last = got.err.splitlines()[-1]
  assert last.startswith("error: out of memory") and "max_new_tokens" in last
  assert len(_keys(tmp_path / "out")) == 2


def test_another_config_is_refused_or_overwritten(bench, tmp_path, prompts):
  assert bench().status == 0
  keys = _keys(tmp_path / "out")
  got = bench(max_new_tokens=13)
  assert got.status == 1 and "max_new_tokens: 16 there, 13 now" in got.err
  assert "loading" not in got.err and got.out == ""
  prompts.write_text(prompts.read_text().replace("abab", "baba"))
  got = bench()
  assert got.status == 1 and "prompts_hash" in got.err
  got = bench("--overwrite", max_new_tokens=13)
  assert got.status == 0 and _keys(tmp_path / "out") == keys
  assert {a.new_tokens for a in records.read(tmp_path / "out")} <= set(
    range(14)
  )


@pytest.mark.parametrize(
  "argv, fields, fault",
  [
    ([], {"drafters": ("ngramm",)}, "did you mean 'ngram'"),
    ([], {"drafters": ("model",)}, "needs either a draft model"),
    ([], {"drafters": "ngram"}, "drafters of the config must be a list"),
    ([], {"rules": ("nope",)}, "unknown rule"),
    ([], {"temperatures": (-1.0,)}, "temperature must be"),
    ([], {"categories": ("nope",)}, "no question is of category 'nope'"),
    ([], {"repeats": 0}, "repeats must be at least 1"),
    ([], {"seed": -1}, "seed must be"),
    ([], {"nonsense": 1}, "unknown field 'nonsense'"),
    ([], {"peers": ("vllm",)}, "unknown peer"),
    ([], {"peers": ("torch static",), "top_k": 5}, ""),
    (["--model=nope"], {}, "unknown model 'nope'"),
    (["--prompt_file=/nowhere.jsonl"], {}, "cannot read /nowhere.jsonl"),
    (["--output=/proc/none/out"], {}, "cannot write to /proc/none/out"),
    (["--traces=-1"], {}, "traces must be"),
    (["--config=/nowhere.py"], {}, "No such file"),
    (["--report_only", "--output=/nowhere"], {}, "is no folder of a run"),
  ],
)
def test_bad_input_is_one_line_before_a_model_is_loaded(
  bench, argv, fields, fault
):
  got = bench(*argv, **fields)
  assert got.status == 1 and got.out == ""
  (line,) = got.err.splitlines()
  assert line.startswith("error: ") and fault in line


def test_a_broken_line_of_the_prompts_is_named(bench, prompts):
  prompts.write_text(prompts.read_text() + '{"turns": ')
  got = bench()
  assert got.status == 1 and "line 4: no JSON" in got.err


def test_a_conversation_that_does_not_fit_is_named(bench):
  got = bench(max_new_tokens=60)
  assert got.status == 1
  assert "question 81 and its answers may take 143 tokens" in got.err


@pytest.mark.parametrize(
  "argv, fault",
  [
    (["--config.nope=1"], "the config has no field 'nope'"),
    (["--config.repeats=many"], "many"),
    (["--config=README.md"], "unterminated string literal"),
    (["--config=nowhere.py"], "No such file"),
  ],
)
def test_what_is_wrong_with_a_config_is_one_line(argv, fault):
  argv = ["benchmark", f"--config={benchmark.DEFAULT}", *argv]
  if any(a.startswith("--config=") for a in argv[2:]):
    del argv[1]
  assert fault in config_file.find_fault(argv)
  assert "\n" not in config_file.find_fault(argv)


def test_fields_of_the_config_are_flags(tmp_path, tiny, prompts):
  argv = arguments(tmp_path, tiny, "out", {"temperatures": (0.0,)})
  done = subprocess.run(
    [
      sys.executable,
      "-m",
      "experiments.benchmark",
      *argv,
      "--config.temperatures=0.0,1.0",
      "--config.max_new_tokens=0",
    ],
    cwd=ROOT,
    capture_output=True,
    text=True,
    env={**os.environ},
  )
  assert done.returncode == 1 and done.stdout == ""
  assert done.stderr == "error: max_new_tokens must be at least 1, got 0\n"


def test_names_with_commas_are_several():
  config = {"prompt_file": "p", "drafters": ("ngram,model k",), "rules": []}
  settings = benchmark_settings.Settings.of(config, {"temperatures": (0, 1)})
  assert settings.drafters == ("ngram", "model k") and settings.rules == ()
  assert [type(t) for t in settings.temperatures] == [float, float]
