"""The training command on a tiny model: stages, resuming, refusals."""

import functools
import json
import pathlib
import shutil

import jax
import numpy as np
import pytest
from absl import flags
from ml_collections import config_flags

from experiments import config_file, train, train_settings
from specjax.checkpoints.drafter_files import WEIGHTS, read_drafter
from specjax.training import data, evaluation, logs, trainer

# How ml_collections loads a config.
pytestmark = pytest.mark.filterwarnings(
  "ignore:the load_module:DeprecationWarning"
)

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAMES = ("draft_model", "medusa", "blockwise", "eagle1", "eagle3")
SECTIONS = {
  "trainee": {"kind": "draft_model", "vocabulary": 40, "layers": (0, 1)},
  "data": {
    "held_out": 0.4,
    "count": 10,
    "max_new_tokens": 10,
    "max_prompt_tokens": 40,
    "max_query_tokens": 16,
    "batch": 4,
  },
  "labels": {"top_k": 5},
  "batches": {"batch": 2, "length": 24, "held_out": 1},
  "training": {"steps": 4, "log_every": 2, "evaluate_every": 2},
  "optimizer": {"learning_rate": 1e-3, "warmup_steps": 1},
  "evaluation": {
    "prompts": 2,
    "num_speculative_tokens": 2,
    "temperatures": (0.0,),
    "max_new_tokens": 8,
    "max_batch": 2,
    "alpha": False,
  },
  "in_smoke": {"training": {"steps": 2}},
}


@pytest.fixture
def prompts(tmp_path):
  file = tmp_path / "prompts.jsonl"
  lines = [json.dumps({"prompt": "ab" * (i + 1)}) for i in range(10)]
  file.write_text("\n".join(lines) + "\n")
  return str(file)


@pytest.fixture
def call(run, tiny, tmp_path, prompts):
  """Calls the command with a config of some fields, by section."""

  def call(*argv, **changes):
    config = {"model": tiny, "dtype": "float32", "smoke": False, **SECTIONS}
    config["data"] = config["data"] | {"prompt_file": prompts}
    for name, values in changes.items():
      mixed = isinstance(values, dict) and name != "trainee"
      config[name] = config[name] | values if mixed else values
    file = tmp_path / "config.py"
    file.write_text(
      "from ml_collections import config_dict\n"
      f"def get_config():\n  return config_dict.create(**{config!r})\n"
    )
    out = f"--output={tmp_path / 'out'}"
    return run(train.main, f"--config={file}", out, "--json", *argv)

  return call


@pytest.fixture
def untried(monkeypatch):
  """What would be tried in the loop, whose programs take long to compile."""
  asked = []
  monkeypatch.setattr(
    evaluation, "in_the_loop", lambda *a: asked.append(a) or []
  )
  return asked


def test_a_recipe_ends_in_a_measured_drafter(call, tmp_path, monkeypatch):
  got = call()
  assert got.status == 0, got.err
  (summary,) = got.records
  out = tmp_path / "out"
  assert summary == json.loads((out / "summary.json").read_text())
  assert summary["recipe"] == "draft_model" and summary["steps"] == 4
  assert 0 < summary["acceptance"][0] < 1
  (one,) = summary["evaluation"]
  assert one["temperature"] == 0 and one["lossless"]
  assert 1 <= one["mean_acceptance_length"] <= 3
  names = {p.name for p in out.iterdir() if p.suffix != ".lock"} - {".lock"}
  assert names == {
    "config.json",
    "conversations.jsonl",
    "drafter",
    "evaluation.json",
    "labels",
    "summary.json",
    "training",
  }
  for said in ("data:", "labels:", "training:", "evaluation:"):
    assert said in got.err
  # What is finished is not done again.
  for name in ("answer_prompts", "label"):
    monkeypatch.setattr(data, name, None)
  again = call()
  assert again.status == 0 and again.records == got.records
  assert "loading" not in again.err
  # What was lost after the training is made from it.
  monkeypatch.undo()
  (out / "summary.json").unlink()
  monkeypatch.setattr(trainer.Trainer, "_program", None)
  third = call()
  assert third.status == 0, third.err
  assert third.records[0]["evaluation"] == summary["evaluation"]


def test_an_interrupted_training_goes_on(call, tmp_path, monkeypatch, untried):
  lines, append = [], logs.append

  def interrupted(path, entry):
    lines.append(entry)
    if len(lines) == 3:
      raise KeyboardInterrupt
    append(path, entry)

  with monkeypatch.context() as patched:
    patched.setattr(logs, "append", interrupted)
    got = call()
  assert got.status == 130 and got.out == ""
  assert got.err.splitlines()[-1].startswith("interrupted; run the same")
  got = call()
  assert got.status == 0, got.err
  assert "going on from step 2" in got.err
  log = logs.read(tmp_path / "out" / "training" / logs.FILE)
  assert [line["step"] for line in log] == [0, 2, 4]
  changed = call(training={"steps": 6})
  assert changed.status == 1 and changed.out == ""
  assert "plan" in changed.err and "loading" not in changed.err


def test_a_training_goes_on_from_a_stored_drafter(call, tmp_path, untried):
  first = call(trainee={**SECTIONS["trainee"], "storage": "int8"})
  assert first.status == 0, first.err
  kept = tmp_path / "kept"
  (tmp_path / "out" / "drafter").rename(kept)
  stored = read_drafter(kept)
  whole = sum(leaf.size for leaf in jax.tree.leaves(stored.params))
  assert (kept / WEIGHTS).stat().st_size < 2 * whole  # 4 in float32
  _, _, tried, *_ = untried[-1]
  for name in ("layers_0", "layers_1", "head"):
    jax.tree.map(
      np.testing.assert_array_equal, tried["model"][name], stored.params[name]
    )
  shutil.rmtree(tmp_path / "out")
  going_on = {**SECTIONS["trainee"], "start": str(kept)}
  second = call(trainee=going_on, optimizer={"learning_rate": 1e-12})
  assert second.status == 0, second.err
  assert f"starting from {kept}" in second.err
  found = read_drafter(tmp_path / "out" / "drafter")
  np.testing.assert_array_equal(found.token_ids, stored.token_ids)
  same = functools.partial(np.testing.assert_allclose, rtol=0, atol=1e-9)
  jax.tree.map(same, found.params, stored.params)
  shutil.rmtree(tmp_path / "out")
  other = call(trainee=going_on | {"layers": (0,)})
  assert other.status == 1 and "other settings" in other.err


@pytest.mark.parametrize(
  "trainee",
  [
    {"kind": "medusa", "loss": "sft", "num_heads": 2, "own_heads": False},
    {"kind": "blockwise", "vocabulary": 40, "inner_size": 8, "num_heads": 2},
    {"kind": "eagle1", "vocabulary": 40, "depth": 2},
    {
      "kind": "eagle3",
      "vocabulary": 40,
      "depth": 2,
      "taps": ("layer_0", "layer_1", "hidden"),
    },
  ],
  ids=lambda trainee: trainee["kind"],
)
def test_every_other_kind_runs_to_its_end(call, trainee, untried):
  got = call(
    trainee=trainee,
    training={"steps": 1, "log_every": 1},
    optimizer={"warmup_steps": 0},
    evaluation={"alpha": True},  # of models of their own only
  )
  assert got.status == 0, got.err
  (summary,) = got.records
  assert len(summary["acceptance"]) == 2
  ((_, drafter, draft, prompts, trial, _),) = untried
  assert drafter.max_depth == 2 and draft is not None
  assert len(prompts) == 2 and not trial.alpha


@pytest.mark.parametrize(
  "changes, fault",
  [
    ({"trainee": {"kind": "nope"}}, "unknown kind 'nope'"),
    ({"trainee": {"kind": "medusa", "layers": (0,)}}, "no option 'layers'"),
    ({"trainee": {"kind": "medusa", "loss": "l2"}}, "unknown loss 'l2'"),
    ({"training": {"stops": 3}}, "training of the config has the unknown"),
    ({"training": {"steps": 0}}, "steps must be at least 1"),
    ({"training": {"micro_batches": 3}}, "does not divide into 3"),
    (
      {
        "trainee": {"kind": "medusa", "loss": "lk_lambda"},
        "training": {"micro_batches": 2},
      },
      "lk_lambda weighs",
    ),
    ({"optimizer": {"decay": "line"}}, "decay must be"),
    ({"batches": {"batch": 0}}, "batch must be at least 1"),
    ({"batches": {"data_devices": 64, "batch": 64}}, "mesh needs 64 devices"),
    ({"data": {"held_out": 0.0}}, "held_out must be"),
    ({"data": {"prompt_file": "/nowhere.jsonl"}}, "no file /nowhere.jsonl"),
    ({"evaluation": {"prompts": 0}}, "prompts must be"),
    ({"evaluation": {"temperatures": (-1.0,)}}, "temperature must be"),
    ({"labels": {"top_k": 0}}, "top_k must be"),
    ({"model": "nope"}, "unknown model 'nope'"),
    ({"nonsense": 1}, "unknown field 'nonsense'"),
  ],
)
def test_bad_input_is_one_line_before_a_model_is_loaded(call, changes, fault):
  got = call(**changes)
  assert got.status == 1 and got.out == ""
  (line,) = got.err.splitlines()
  assert line.startswith("error: ") and fault in line


def _config(name):
  values = flags.FlagValues()
  path = ROOT / "configs" / "train" / f"{name}.py"
  holder = config_flags.DEFINE_config_file(
    "config", None, flag_values=values, sys_argv=["train", f"--config={path}"]
  )
  values(["train", f"--config={path}"])
  return holder.value.to_dict()


@pytest.mark.parametrize("name", NAMES)
def test_every_recipe_is_sound_whole_and_in_smoke(name):
  argv = ["train", f"--config={ROOT / 'configs' / 'train' / name}.py"]
  assert config_file.find_fault([*argv, "--config.training.steps=3"]) is None
  config = _config(name)
  whole = train_settings.Settings.of(config, {})
  smoke = train_settings.Settings.of(config | {"smoke": True}, {})
  assert whole.recipe.kind == smoke.recipe.kind == name
  assert smoke.plan.steps < whole.plan.steps and smoke.smoke
  assert smoke.plan.patience is None


def test_a_record_names_no_path_and_no_speed(tmp_path):
  config = _config("draft_model")
  file = tmp_path / "prompts.jsonl"
  file.write_text('{"prompt": "a"}\n')
  config["data"]["prompt_file"] = str(file)
  first = train_settings.Settings.of(config, {}).record()
  assert str(tmp_path) not in json.dumps(first)
  config["data"]["batch"] = 3
  assert train_settings.Settings.of(config, {}).record() == first
  file.write_text('{"prompt": "b"}\n')
  assert train_settings.Settings.of(config, {}).record() != first
