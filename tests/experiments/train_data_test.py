"""What trainings learn from: stores that they share, and smaller ones."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments import (
  run_files,
  train_data,
  train_recipes,
  train_run,
  train_trial,
)
from experiments.train_settings import Settings
from specjax.checkpoints.drafter_files import (
  DrafterFile,
  read_drafter,
  save_drafter,
)
from specjax.checkpoints.loaded import load_model
from specjax.training import data
from specjax.training.types import Frozen

HELD_OUT = 0.4
DRAFT = {"kind": "draft_model", "vocabulary": 40, "layers": (0, 1)}


@pytest.fixture(scope="module")
def target(tiny):
  return load_model(tiny, "float32")


@pytest.fixture(scope="module")
def chats(tmp_path_factory):
  """A file of conversations of bytes."""
  file = tmp_path_factory.mktemp("chats") / "chats.jsonl"
  lines = []
  for n in range(10):
    ids = tuple(97 + (n + i) % 11 for i in range(12))
    text = data.Conversation(str(n), "prompt", ids, ((4, 12),), 1.0, f"p{n}")
    lines.append(json.dumps(text.to_json()))
  file.write_text("\n".join(lines) + "\n")
  return str(file)


@pytest.fixture
def settings(tiny, chats):
  """Makes settings of some fields, by section."""

  def make(**changes):
    config = {
      "model": tiny,
      "dtype": "float32",
      "trainee": DRAFT,
      "data": {"conversations": chats, "held_out": HELD_OUT},
      "labels": {"top_k": 5},
      "batches": {"batch": 2, "length": 12, "held_out": 1},
      "training": {"steps": 2},
      "optimizer": {"warmup_steps": 1},
      "evaluation": {"prompts": 2},
    }
    for name, values in changes.items():
      config[name] = values if name == "trainee" else config[name] | values
    return Settings.of(config, {})

  return make


def _prepare(settings, target, path, start=None):
  trainee = settings.recipe.build(target.model)
  return train_data.prepare(settings, trainee, start, target, path)


def test_recipes_share_a_store(settings, target, tmp_path, monkeypatch, capsys):
  folder = str(tmp_path / "labels")
  one = settings(labels={"folder": folder, "top_k": 7, "taps": ("hidden",)})
  first = _prepare(one, target, tmp_path / "a")
  assert first.train(one)(0).features == {}
  monkeypatch.setattr(data, "label", None)
  two = settings(labels={"folder": folder}, trainee={"kind": "eagle1"})
  second = _prepare(two, target, tmp_path / "b")
  batch = second.train(two)(0)
  assert set(batch.features) == {"hidden"}
  assert batch.teacher.ids.shape == (2, 12, 5)
  assert "labelled in" in capsys.readouterr().err
  assert not (tmp_path / "b").exists()
  three = settings(
    labels={"folder": folder},
    trainee={"kind": "eagle3", "taps": ("layer_0", "layer_1", "hidden")},
  )
  with pytest.raises(ValueError, match="no feature 'layer_0', only hidden"):
    _prepare(three, target, tmp_path / "c")
  # Known before a model is loaded.
  with pytest.raises(ValueError, match="has the 7 likeliest.* 8 are wanted"):
    settings(labels={"folder": folder, "top_k": 8})


def test_where_labels_lie_is_in_no_record(settings, tmp_path):
  without = settings().record()
  shared = {"folder": str(tmp_path), "taps": ("hidden",)}
  assert settings(labels=shared).record() == without
  assert str(tmp_path) not in json.dumps(without)
  assert settings(labels={"top_k": 6}).record() != without
  assert settings(data={"max_tokens": 30}).record() != without


def test_few_tokens_are_the_first_ones(settings, target, tmp_path):
  few = _prepare(settings(data={"max_tokens": 17}), target, tmp_path)
  assert (few.used, few.figures()["answer_tokens"]) == (16, 16)
  assert few.available > 16
  sides = [data.is_held_out(t.prompt_id, HELD_OUT) for t in few.texts]
  kept = [entry.prompt_id for entry in few.stores[0].entries]
  train = [f"p{n}" for n, held in enumerate(sides) if not held]
  held = [f"p{n}" for n, held in enumerate(sides) if held]
  assert sorted(kept) == sorted(train[:2] + held)
  with pytest.raises(ValueError, match="max_tokens must be at least 1"):
    settings(data={"max_tokens": 0})


@pytest.fixture(scope="module")
def start(target, tmp_path_factory):
  """The folder of a draft of fresh weights, its own 40 tokens."""
  made = {"kind": "draft_model", "vocabulary": 40, "num_layers": 1}
  recipe = train_recipes.read(made)
  trainee = recipe.build(target.model)
  ids = np.asarray([*range(90, 129), 256], np.int32)
  params = trainee.init(
    jax.random.key(1), Frozen(target.params, jnp.asarray(ids))
  )
  folder = tmp_path_factory.mktemp("start") / "drafter"
  file = DrafterFile(
    "draft_model", recipe.describe(trainee), "tiny", (264, 24), params, ids
  )
  save_drafter(folder, file, "float32")
  return str(folder)


ON_POLICY = {
  "on_policy": 0.5,
  "max_new_tokens": 6,
  "max_prompt_tokens": 8,
  "max_query_tokens": 8,
  "count": 1,
  "batch": 4,
}


def test_a_draft_answers_for_a_share_of_the_rows(
  settings, target, start, tmp_path, monkeypatch
):
  own = {"kind": "draft_model", "vocabulary": 40, "num_layers": 1}
  made = settings(
    trainee=own | {"start": start},
    data=ON_POLICY,
    labels={"folder": str(tmp_path / "labels")},
    batches={"batch": 4},
  )
  file = read_drafter(start)
  got = _prepare(made, target, tmp_path / "a", file)
  ours, theirs = got.stores
  train = {
    t.prompt_id
    for t in got.texts
    if not data.is_held_out(t.prompt_id, HELD_OUT)
  }
  assert {e.prompt_id for e in theirs.entries} == train
  assert {e.source for e in theirs.entries} == {"draft"}
  assert {e.source for e in ours.entries} == {"prompt"}
  assert got.drafted == sum(
    theirs.read(i).mask.sum() for i in range(len(train))
  )
  said = {int(t) for i in range(len(train)) for t in theirs.tokens(i)[0][4:]}
  assert said <= set(file.token_ids.tolist())
  # Half of the rows, and none of those that stop the training early.
  known = {tuple(ours.tokens(i)[0].tolist()) for i in range(len(ours))}
  rows = [
    tuple(row.tolist()) in known
    for step in range(50)
    for row in np.asarray(got.train(made)(step).tokens)
  ]
  assert 70 < sum(rows) < 130
  held = got.held_out(made)(0).tokens
  assert all(tuple(row.tolist()) in known for row in np.asarray(held))
  # The next training finds the answers beside the labels.
  monkeypatch.setattr(data, "label", None)
  again = _prepare(made, target, tmp_path / "b", file)
  assert again.stores[1].entries == theirs.entries


@pytest.mark.parametrize(
  "trainee, share, fault",
  [
    ({"kind": "eagle1", "start": "S"}, 0.5, "eagle1 cannot"),
    (DRAFT, 0.5, "needs start"),
    (DRAFT | {"start": "S", "loss": "sft"}, 1.0, "the draft's own tokens"),
    (DRAFT, 1.5, r"on_policy must be in \[0, 1\]"),
    (DRAFT | {"as_it_is": True}, 0.0, "as_it_is measures"),
  ],
)
def test_who_cannot_write_alone_is_refused(
  settings, start, trainee, share, fault
):
  if "start" in trainee:
    trainee = trainee | {"start": start}
  with pytest.raises(ValueError, match=fault):
    settings(trainee=trainee, data=ON_POLICY | {"on_policy": share})


def test_what_is_held_out_is_tried_by_name(
  settings, target, start, tmp_path, monkeypatch
):
  own = {"kind": "draft_model", "vocabulary": 40, "num_layers": 1}
  made = settings(
    trainee=own | {"start": start, "as_it_is": True},
    evaluation={"prompts": 2, "texts": 3, "temperatures": (0.0, 1.0)},
  )
  texts = train_data.read(made.texts.conversations)
  held = [t for t in texts if data.is_held_out(t.prompt_id, HELD_OUT)]
  assert len(held) > 3
  asked, forced = [], []

  def in_the_loop(target, drafter, draft, prompts, trial, say):
    asked.extend(prompts)
    return [
      {"temperature": t, "by_prompt": [{"rounds": 4} for _ in prompts]}
      for t in trial.temperatures
    ]

  def measure(trainee, params, frozen, model, texts, temperature, say):
    forced.append((temperature, list(texts)))
    return {"acceptance": [0.5], "by_prompt": []} if texts else None

  monkeypatch.setattr(train_trial.evaluation, "in_the_loop", in_the_loop)
  monkeypatch.setattr(train_trial.forced, "measure", measure)
  summary = train_run.complete(made, tmp_path / "run", lambda: target)
  assert asked == [t.token_ids[:4] for t in held[:2]]
  # All of them were drawn at temperature 1.
  assert forced == [(0.0, []), (1.0, held[:3])]
  stored = run_files.read(tmp_path / "run" / run_files.EVALUATION)
  names = [one["prompt_id"] for one in stored[0]["by_prompt"]]
  assert names == [t.prompt_id for t in held[:2]]
  assert summary["evaluation"] == [
    {"temperature": 0.0, "held_out": None},
    {"temperature": 1.0, "held_out": {"acceptance": [0.5]}},
  ]
  # Nothing was trained, nor labelled for it.
  assert summary["steps"] == summary["answer_tokens"] == 0
  there = {path.name for path in (tmp_path / "run").iterdir()}
  assert there.isdisjoint({"labels", "training"})
