"""Ablations: what is run, what is compared, and what is refused."""

import json

import pytest

from experiments import ablate, ablate_run, run_files, train_run
from experiments.ablate_settings import Study
from specjax.models.decoder import Transformer
from specjax.models.presets import preset

pytestmark = pytest.mark.filterwarnings(
  "ignore:the load_module:DeprecationWarning"
)

RECIPE = {
  "model": "smollm2-135m",
  "trainee": {"kind": "draft_model", "vocabulary": 40, "layers": (0, 1)},
  "data": {"conversations": "@chats"},
  "labels": {"top_k": 5},
  "batches": {"batch": 2, "length": 24},
  "training": {"steps": 4},
  "optimizer": {"warmup_steps": 1},
  "evaluation": {"temperatures": (0.0, 1.0)},
  "in_smoke": {"training": {"steps": 2}},
}
ARMS = (
  {"name": "kl"},
  {"name": "sft", "trainee": {"loss": "sft"}},
  {"name": "few", "data": {"max_tokens": 100}, "curve": "draft"},
  {"name": "some", "data": {"max_tokens": 300}, "curve": "draft"},
  {"name": "many", "data": {"max_tokens": 900}, "curve": "draft"},
)
RATES = {"kl": 0.5, "sft": 0.4, "few": 0.3, "some": 0.4, "many": 0.45}


@pytest.fixture
def config(tmp_path):
  chats = tmp_path / "chats.jsonl"
  chats.write_text("")
  return {
    "recipes": {"draft": RECIPE},
    "arms": ARMS,
    "seeds": (0, 1, 2),
    "files": {"chats": str(chats), "stock": None},
    "temperature": 1.0,
    "smoke": False,
  }


@pytest.fixture
def trained(monkeypatch):
  """In place of trainings their figures; lists (arm's folder, seed, steps)."""
  done = []

  def complete(settings, path, load, command=None):
    if not (path / run_files.SUMMARY).exists():
      arm, seed = path.parent.name, settings.plan.seed
      done.append((arm, seed, settings.plan.steps))
      path.mkdir(parents=True)
      limit = settings.texts.max_tokens
      summary = {
        "parameters": 7,
        "answer_tokens": limit or 1000,
        "positions": 50,
        "steps": 4,
        "training_s": 60.0,
      }
      run_files.write(path / run_files.SUMMARY, summary)
      trials = [_trial(t, RATES[arm], seed) for t in (0.0, 1.0)]
      run_files.write(path / run_files.EVALUATION, trials)
    return run_files.read(path / run_files.SUMMARY)

  monkeypatch.setattr(train_run, "complete", complete)
  monkeypatch.setattr(ablate_run, "_make_stores", lambda *a: None)
  return done


def _trial(temperature, rate, seed):
  """Prompts unlike one another, arms alike but for their rates."""
  rate += 0.01 * (seed - 1) if temperature else 0.3
  rates = [(f"p{n}", rate + 0.02 * (n % 5 - 2)) for n in range(10)]
  return {
    "temperature": temperature,
    "by_prompt": [
      {"prompt_id": name, "emitted": 20 + 20 * r, "rounds": 20}
      for name, r in rates
    ],
    "held_out": {
      "by_prompt": [
        {"prompt_id": name, "total": [50 * r, 9], "count": [50, 50]}
        for name, r in rates
      ]
    },
  }


@pytest.fixture
def call(run, config, tmp_path, trained):
  def call(*argv, **changes):
    file = tmp_path / "config.py"
    fields = config | changes
    file.write_text(
      "from ml_collections import config_dict\n"
      f"def get_config():\n  return config_dict.create(**{fields!r})\n"
    )
    out = f"--output={tmp_path / 'out'}"
    return run(ablate.main, f"--config={file}", out, "--json", *argv)

  return call


def test_arms_are_compared_by_prompt_over_all_seeds(call, tmp_path, trained):
  got = call()
  assert got.status == 0, got.err
  (record,) = got.records
  out = tmp_path / "out"
  assert record == json.loads((out / "ablation.json").read_text())
  assert (out / "ablation.png").exists() and (out / "curves.png").exists()
  assert len(trained) == 15 and trained[:2] == [("kl", 0, 4), ("kl", 1, 4)]
  kl, sft = record["arms"][:2]
  assert kl["acceptance"]["estimate"] == pytest.approx(0.5)
  assert kl["acceptance"]["by_seed"] == pytest.approx([0.49, 0.5, 0.51])
  assert kl["acceptance"]["low"] < 0.5 < kl["acceptance"]["high"]
  assert kl["acceptance"]["gain"] is None
  assert kl["tokens_a_round"]["estimate"] == pytest.approx(1.5)
  # Prompts differ by more than arms do, and are paired.
  gain = sft["acceptance"]["gain"]
  assert gain["prompts"] == 10
  assert gain["estimate"] == pytest.approx(-0.1)
  assert gain["high"] - gain["low"] < 1e-6
  curve = record["curves"]["draft"]
  assert [p["tokens"] for p in curve["points"]] == [100, 300, 900]
  assert curve["fit"]["tokens"] == 9000 and curve["fit"]["value"] > 0.45
  # What is finished is not done again, and arms that are not asked for are
  # compared all the same.
  again = call("--arms=sft")
  assert again.records == got.records and len(trained) == 15


def test_some_arms_may_be_trained_alone(call, trained):
  got = call("--arms=sft,kl", seeds=(3,))
  assert got.status == 0, got.err
  assert trained == [("kl", 3, 4), ("sft", 3, 4)]
  (record,) = got.records
  assert [arm["name"] for arm in record["arms"]] == ["kl", "sft"]
  assert record["curves"]["draft"] == {"points": [], "fit": None}


def test_an_arm_is_a_recipe_with_changes(config):
  arms = (
    {"name": "kl", "labels": {"folder": "elsewhere"}},
    {"name": "long", "training": {"steps": 9}, "against": "kl"},
  )
  study = Study.of(config | {"arms": arms, "smoke": True}, "labels", None)
  first, second = (arm.runs[1] for arm in study.arms)
  assert first.plan.steps == 2 and second.plan.steps == 9
  assert (first.plan.seed, list(study.arms[0].runs)) == (1, [0, 1, 2])
  assert first.labels.folder == "elsewhere"
  assert second.labels.folder == "labels"
  assert not first.smoke  # its small sizes are fields like any other


@pytest.mark.parametrize(
  "changes, argv, fault",
  [
    ({"arms": (*ARMS, {"name": "kl"})}, (), "two arms are called 'kl'"),
    ({"arms": ({"name": "a", "recipe": "b"},)}, (), "no recipe 'b'"),
    ({"arms": ({"name": "a", "against": "b"},)}, (), "no arm 'b' to compare"),
    (
      {"arms": ({"name": "a", "trainee": {"start": "@stock"}},)},
      (),
      "arm a: it needs a file: give --config.files.stock=PATH",
    ),
    ({"arms": ({"name": "a", "training": {"steps": 0}},)}, (), "arm a: steps"),
    ({"seeds": ()}, (), "needs an arm and a seed"),
    ({}, ("--arms=nope",), "no arm 'nope'; there are kl, sft"),
    ({"nonsense": 1}, (), "unknown field 'nonsense'"),
    ({"temperature": 0.5}, (), "not measured at temperature 0.5"),
  ],
)
def test_bad_input_is_one_line(call, changes, argv, fault):
  got = call(*argv, **changes)
  assert got.status == 1 and got.out == ""
  last = got.err.splitlines()[-1]
  assert last.startswith("error: ") and fault in last


@pytest.mark.parametrize("name", ["realign", "tokens"])
def test_every_config_names_what_it_needs(name, tmp_path):
  module = pytest.importorskip(f"configs.ablate.{name}")
  config = module.get_config().to_dict()
  with pytest.raises(ValueError, match="needs a file"):
    Study.of(config, "labels", None)
  file = tmp_path / "drafter.json"
  file.write_text("{}")
  files = {n: str(file) for n in config["files"]}
  files |= {n: str(tmp_path) for n in files if n in ("stock", "target")}
  for smoke in (False, True):
    study = Study.of(config | {"files": files, "smoke": smoke}, "labels", None)
    assert len(study.arms) == len(config["arms"])
    # No seed changes what trains nothing.
    for arm in study.arms:
      assert len(arm.runs) == (1 if arm.runs[0].ends.as_it_is else 3)
    for settings in (arm.runs[0] for arm in study.arms):
      assert settings.trial.temperatures == (1.0,)
      # It fits the default model.
      settings.recipe.build(Transformer(preset("smollm2-135m")))
