"""A trained drafter drafts what it drafted before it was saved."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments import train_recipes
from specjax.api import Sampling, generate
from specjax.checkpoints import CheckpointError
from specjax.checkpoints.drafter_files import CONFIG, DrafterFile, save_drafter
from specjax.checkpoints.loaded import LoadedModel
from specjax.drafters import (
  DrafterSettings,
  DraftTree,
  EagleTree,
  HeadTree,
  registry,
  trained,
)
from specjax.models.config import RopeScaling
from specjax.models.decoder import Transformer
from specjax.testing import tiny_net
from specjax.training.types import Frozen

VOCABULARY = 40
IDS = jnp.arange(0, VOCABULARY, 2, dtype=jnp.int32)
KINDS = {
  "draft_model": {"layers": (0, 1)},
  "medusa": {"num_heads": 3, "own_heads": True},
  "blockwise": {"num_heads": 3, "inner_size": 4},
  "eagle1": {"taps": ("hidden",)},
  "eagle3": {"taps": ("layer_0", "layer_1", "hidden")},
}
NAMES = {"draft_model": "model", "eagle1": "eagle"}
# Of the same weights: the name, and what its class takes for three levels.
TREES = {
  "draft_model": ("model_tree", {"tree": DraftTree.tree.cut(3)}),
  "medusa": ("medusa_tree", {"tree": HeadTree.tree.cut(3)}),
  "blockwise": ("blockwise_tree", {"tree": HeadTree.tree.cut(3)}),
  "eagle1": ("eagle_tree", {"max_depth": 3}),
  "eagle3": ("eagle_tree", {"max_depth": 3}),
}


@pytest.fixture(scope="module")
def target():
  config = dataclasses.replace(
    tiny_net(VOCABULARY).config,
    rope_scaling=RopeScaling(original_max_positions=16),
  )
  model = Transformer(config)
  return LoadedModel("tiny", model, model.init(jax.random.key(0)))


def train(kind, target, reduced, **options):
  """(the trainee, its weights moved off where they begin, what is shared)."""
  section = {"kind": kind, "loss": "forward_kl"} | KINDS[kind] | options
  if reduced:
    section["vocabulary"] = len(IDS)
  recipe = train_recipes.read(section)
  trainee = recipe.build(target.model)
  frozen = Frozen(target.params, IDS if reduced else None)
  params = trainee.init(jax.random.key(1), frozen)
  leaves, form = jax.tree.flatten(params)
  keys = jax.random.split(jax.random.key(2), len(leaves))
  moved = [
    leaf + 0.1 * jax.random.normal(key, leaf.shape)
    for key, leaf in zip(keys, leaves, strict=True)
  ]
  return recipe, trainee, jax.tree.unflatten(form, moved), frozen


def save(path, target, recipe, trainee, params, frozen, **changes):
  ids = frozen.token_ids
  file = DrafterFile(
    kind=recipe.kind,
    settings=recipe.describe(trainee),
    target=target.name,
    target_sizes=(VOCABULARY, target.model.config.hidden_size),
    params=jax.tree.map(np.asarray, params),
    token_ids=None if ids is None else np.asarray(ids),
  )
  save_drafter(path, dataclasses.replace(file, **changes), "float32")


def same(found, wanted):
  found, wanted = (
    jax.tree_util.tree_leaves_with_path(t) for t in (found, wanted)
  )
  assert [key for key, _ in found] == [key for key, _ in wanted]
  for (_, a), (_, b) in zip(found, wanted, strict=True):
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("reduced", [True, False], ids=["reduced", "whole"])
@pytest.mark.parametrize("kind", KINDS)
def test_its_drafter_and_weights_come_back(tmp_path, target, kind, reduced):
  recipe, trainee, params, frozen = train(kind, target, reduced)
  save(tmp_path / "it", target, recipe, trainee, params, frozen)
  settings = DrafterSettings(
    draft_model=str(tmp_path / "it"), num_speculative_tokens=3
  )
  name = NAMES.get(kind, kind)
  registry.check(name, settings)
  drafter, draft = registry.resolve(name, settings, target)
  wanted = trainee.drafter(3)
  if kind in ("medusa", "blockwise"):  # V may be stated where it is the net's
    wanted = dataclasses.replace(wanted, vocab_size=VOCABULARY)
  assert drafter == wanted
  name, own = TREES[kind]
  tree, _ = registry.resolve(name, settings, target)
  assert type(tree) is not type(drafter) and tree.max_depth == 3
  assert tree == trained.load(tmp_path / "it", target, type(tree), **own)[0]
  same(draft.params, trainee.draft_params(params, frozen))


def test_the_folder_of_its_training_will_do(tmp_path, target):
  made = train("medusa", target, True)
  save(tmp_path / "run" / trained.TRAINED, target, *made)
  assert trained.is_folder(tmp_path / "run") and not trained.is_folder(tmp_path)
  assert trained.kind_of(tmp_path / "run") == "medusa"
  drafter, _ = trained.load(tmp_path / "run", target)
  again, _ = trained.load(tmp_path / "run" / trained.TRAINED, target)
  assert drafter == again


@pytest.mark.parametrize(
  "kind, options",
  [("draft_model", {"train_head": False}), ("eagle3", {"own_head": False})],
)
def test_a_head_of_the_target_is_not_in_the_file(
  tmp_path, target, kind, options
):
  recipe, trainee, params, frozen = train(kind, target, True, **options)
  save(tmp_path / "it", target, recipe, trainee, params, frozen)
  assert "head" not in params and "embed" not in params
  _, draft = trained.load(tmp_path / "it", target)
  same(draft.params, trainee.draft_params(params, frozen))


def test_generates_with_a_loaded_drafter(tmp_path, target):
  save(tmp_path / "it", target, *train("eagle3", target, True))
  drafter, draft = trained.load(
    tmp_path / "it", target, num_speculative_tokens=2
  )
  options = dict(max_new_tokens=9, sampling=Sampling(temperature=0.0))
  out = generate(target, [[1, 2, 3]], drafter=drafter, draft=draft, **options)
  assert out.tokens == generate(target, [[1, 2, 3]], **options).tokens
  assert out.stats.drafted > 0
  with pytest.raises(ValueError, match="give its drafter too"):
    generate(target, [[1, 2, 3]], draft=draft, **options)


def test_what_does_not_fit_is_refused(tmp_path, target):
  made = train("medusa", target, True)
  save(tmp_path / "it", target, *made)
  given = DrafterSettings(draft_model=str(tmp_path / "it"))
  for name in ("model", "eagle", "blockwise"):
    with pytest.raises(
      ValueError, match="goes with --drafter=medusa or .*, not"
    ):
      registry.check(name, given)
  with pytest.raises(ValueError, match="needs the folder of a trained"):
    registry.check("eagle3", DrafterSettings(draft_model="smollm2-135m"))
  with pytest.raises(ValueError, match="two drafts"):
    registry.check("medusa", dataclasses.replace(given, draft_layers=1))
  with pytest.raises(ValueError, match="cannot draft 4 tokens"):
    trained.load(tmp_path / "it", target, num_speculative_tokens=4)
  save(tmp_path / "wide", target, *made, target_sizes=(50, 8))
  with pytest.raises(CheckpointError, match="of 50 tokens and width 8; tiny"):
    trained.load(tmp_path / "wide", target)
  with pytest.raises(CheckpointError, match="no trained drafter"):
    trained.load(tmp_path, target)
  with pytest.raises(ValueError, match="is for Heads and HeadTree, not Eagle"):
    trained.load(tmp_path / "it", target, EagleTree)


@pytest.mark.parametrize(
  "change, fault",
  [
    ({"kind": "oracle"}, "kind 'oracle'; known are draft_model"),
    ({"settings": {}}, "hidden_size"),
    ({"num_heads": 2}, "heads_2"),
    ({"num_heads": 4}, "heads_3"),
    ({"hidden_size": 7}, "is"),
  ],
)
def test_settings_that_are_not_the_weights_are_refused(
  tmp_path, target, change, fault
):
  save(tmp_path / "it", target, *train("medusa", target, True))
  config = tmp_path / "it" / CONFIG
  text = json.loads(config.read_text())
  if "kind" in change or "settings" in change:
    text |= change
  else:
    text["settings"] |= change
  config.write_text(json.dumps(text))
  with pytest.raises(CheckpointError, match=fault):
    trained.load(tmp_path / "it", target)
