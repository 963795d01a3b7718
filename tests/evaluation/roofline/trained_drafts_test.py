"""Costs of trained drafters: as many parameters as the loop holds."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import pytest

from experiments import train_recipes
from specjax.checkpoints.drafter_files import CONFIG
from specjax.drafters import shipped, trained
from specjax.evaluation.roofline import cases, trained_drafts
from specjax.models.presets import PRESETS
from specjax.testing import tiny_net
from specjax.training.types import Frozen

VOCABULARY = 40
IDS = jnp.arange(0, VOCABULARY, 2, dtype=jnp.int32)
KINDS = {
  "draft_model": {"layers": (0, 1)},
  "medusa": {"num_heads": 3, "num_layers": 2, "own_heads": True},
  "blockwise": {"num_heads": 3, "inner_size": 4},
  "eagle1": {"taps": ("hidden",)},
  "eagle3": {"taps": ("layer_0", "layer_1", "hidden"), "fc_norm": True},
}
TARGET = tiny_net(VOCABULARY)


def write(folder, kind, settings, changes=()):
  folder.mkdir(parents=True, exist_ok=True)
  sizes = [VOCABULARY, TARGET.config.hidden_size]
  text = {
    "kind": kind,
    "settings": settings,
    "target": "tiny",
    "target_sizes": sizes,
  }
  (folder / CONFIG).write_text(json.dumps(text | dict(changes)))
  return folder


@pytest.fixture(scope="module")
def weights():
  return TARGET.init(jax.random.key(0))


def train(kind, weights, reduced, **options):
  """(settings of the file, weights that the loop holds)."""
  section = {"kind": kind, "loss": "forward_kl"} | KINDS[kind] | options
  if reduced:
    section["vocabulary"] = len(IDS)
  recipe = train_recipes.read(section)
  trainee = recipe.build(TARGET)
  frozen = Frozen(weights, IDS if reduced else None)
  params = trainee.init(jax.random.key(1), frozen)
  return recipe.describe(trainee), trainee.draft_params(params, frozen)


def leaves(tree):
  """(name, array) of all weights; ids of a vocabulary are none."""
  return [
    (jax.tree_util.keystr(path), leaf)
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    if jnp.issubdtype(leaf.dtype, jnp.floating)
  ]


CASES = [
  *((kind, reduced, {}) for kind in KINDS for reduced in (True, False)),
  *(("medusa", reduced, {"own_heads": False}) for reduced in (True, False)),
  *(
    ("draft_model", reduced, {"train_head": False}) for reduced in (True, False)
  ),
  ("draft_model", True, {"share_embedding": False}),
  *(("eagle3", reduced, {"own_head": False}) for reduced in (True, False)),
]


@pytest.mark.parametrize("kind, reduced, options", CASES)
def test_parameters_are_those_of_the_weights(
  tmp_path, weights, kind, reduced, options
):
  settings, params = train(kind, weights, reduced, **options)
  folder = write(tmp_path / "it", kind, settings)
  found = trained_drafts.drafter_of(folder, TARGET.config)
  named = leaves(params)
  # A table is looked up, unless it is the head.
  heads = [name for name, _ in named if "'head'" in name or ".head" in name]
  table = VOCABULARY * TARGET.config.hidden_size
  looked_up = any("embed" in name for name, _ in named) and bool(heads)
  every = sum(leaf.size for _, leaf in named)
  model, once = found.model, found.once
  read = 0 if model is None else model.parameters
  if once is not None:
    read += once.once + KINDS[kind].get("num_heads", 0) * once.each
    read += once.shared
  assert read == every - looked_up * table
  shared = {id(leaf) for _, leaf in leaves(weights)}
  own = sum(leaf.size for _, leaf in named if id(leaf) not in shared)
  assert found.stored == own
  assert found.longest == KINDS[kind].get("num_heads")
  assert found.cached == (model is not None)


def test_a_shared_layer_is_stored_once(tmp_path, weights):
  settings, _ = train("draft_model", weights, True)
  folder = write(tmp_path / "own", "draft_model", settings)
  own = trained_drafts.drafter_of(folder, TARGET.config)
  folder = write(
    tmp_path / "shared", "draft_model", settings | {"share_layers": 1}
  )
  shared = trained_drafts.drafter_of(folder, TARGET.config)
  layer = sum(leaf.size for _, leaf in leaves(weights["layers_0"]))
  assert own.stored - shared.stored == layer
  assert own.model.parameters == shared.model.parameters


def test_names_of_drafters(tmp_path, monkeypatch, weights):
  settings, _ = train("medusa", weights, True)
  folder = write(tmp_path / "run" / trained.TRAINED, "medusa", settings)
  wanted = trained_drafts.drafter_of(folder, TARGET.config)
  for name in (folder, tmp_path / "run"):
    assert cases.drafter_of(str(name), TARGET.config) == wanted
  smol = PRESETS["smollm2-135m"]
  eagle = {
    "layer": dataclasses.asdict(dataclasses.replace(smol, num_layers=1)),
    "taps": ["layer_1", "layer_14", "layer_26"],
    "version": 3,
    "draft_vocab_size": 8192,
  }
  monkeypatch.setattr(shipped, "FOLDER", tmp_path)
  write(
    tmp_path / "smollm2-135m" / "eagle3",
    "eagle3",
    eagle,
    {"target_sizes": [49152, 576]},
  )
  found = cases.drafter_of("smollm2-135m:eagle3", smol)
  assert found.stored == 9_808_128  # "9.8 million weights" of its recipe
  with pytest.raises(ValueError, match="no drafter 'x'.*smollm2-135m:eagle3"):
    cases.drafter_of("x", smol)


@pytest.mark.parametrize(
  "changes, error",
  [
    ({"target_sizes": [40, 8]}, "drafts for tiny, of 40 tokens and width 8"),
    ({"kind": "oracle"}, "it holds a 'oracle'; known are draft_model"),
    ({"settings": {}}, "drafter.json: it does not state 'layer'"),
  ],
)
def test_folders_that_are_refused(tmp_path, weights, changes, error):
  settings, _ = train("eagle3", weights, False)
  folder = write(tmp_path / "it", "eagle3", settings, changes)
  with pytest.raises(ValueError, match=error) as caught:
    cases.drafter_of(str(folder), TARGET.config)
  assert "\n" not in str(caught.value)


def test_a_published_layout_is_refused(tmp_path):
  (tmp_path / "config.json").write_text('{"medusa_num_heads": 2}')
  with pytest.raises(ValueError, match="published drafter.*export_drafter"):
    cases.drafter_of(str(tmp_path), TARGET.config)
