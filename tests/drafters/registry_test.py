"""Drafters by name, by import path and by vLLM's configuration."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
import tokenizers
from tokenizers import decoders, models

from specjax import checkpoints, passes, topologies
from specjax.checkpoints.loaded import LoadedModel
from specjax.drafters import (
  DrafterSettings,
  DraftModel,
  DraftTree,
  FirstOf,
  Merge,
  NGram,
  NGramTree,
  NoDraft,
  registry,
  speculative_config,
)
from specjax.drafters.settings import parse
from specjax.models.cache import commit
from specjax.models.resized import Resized
from specjax.testing import nets
from specjax.text import Tokenizer
from specjax.types import Slots

NET = nets.tiny_net(num_layers=2)
TARGET = LoadedModel("tiny", NET, nets.random_net(NET))


@dataclasses.dataclass(frozen=True)
class Outside(NGram):
  """A drafter that lives outside the package."""


@dataclasses.dataclass(frozen=True)
class Demanding(NGram):
  table: tuple = dataclasses.field(kw_only=True)


class Half:
  siblings, num_nodes = "chain", 0

  def init(self): ...
  def observe(self): ...
  def propose(self): ...


HERE = __name__


def _settings(**values):
  return DrafterSettings.of(**values)


def test_names_give_their_drafters():
  assert registry.resolve("none", _settings(), TARGET) == (NoDraft(), None)
  drafter, draft = registry.resolve(
    "ngram", _settings(num_speculative_tokens=3, max_ngram=5), TARGET
  )
  assert (drafter, draft) == (NGram(3, max_ngram=5), None)


def test_the_first_layers_make_a_draft():
  drafter, draft = registry.resolve(
    "model", _settings(draft_layers=1, num_speculative_tokens=2), TARGET
  )
  assert drafter == DraftModel(draft.model, 2)
  assert draft.model.config.num_layers == 1
  assert "layers_1" not in draft.params
  assert draft.params["embed"] is TARGET.params["embed"]
  assert draft.tokenizer is TARGET.tokenizer


def test_a_tree_is_told_by_name_and_cut_at_the_length_of_a_draft():
  given = _settings(draft_layers=1, tree="expand:3x2x1", siblings="iid")
  drafter, draft = registry.resolve("model_tree", given, TARGET)
  tree = topologies.expansion((3, 2, 1))
  assert drafter == DraftTree(draft.model, tree, "iid")
  shorter = dataclasses.replace(given, num_speculative_tokens=2)
  loaded = {(None, 1): draft}
  again, same = registry.resolve("model_tree", shorter, TARGET, loaded)
  assert again == DraftTree(draft.model, tree.cut(2), "iid")
  assert same is draft


def test_parts_of_a_name_are_combined():
  given = _settings(draft_layers=1, num_speculative_tokens=3, max_ngram=5)
  drafter, draft = registry.resolve("ngram/model", given, TARGET)
  alone, own = registry.resolve(
    "model", _settings(draft_layers=1, num_speculative_tokens=3), TARGET
  )
  assert drafter == FirstOf((NGram(3, max_ngram=5), alone))
  assert draft.params[0] is None and draft.name == own.name
  assert draft.params[1].keys() == own.params.keys()
  drafter, draft = registry.resolve("ngram+ngram_tree", _settings(), TARGET)
  assert drafter == Merge((NGram(), NGramTree())) and draft is None


@pytest.mark.parametrize(
  "text, name, values",
  [
    ("ngram", "ngram", {}),
    ("ngram max_ngram=3", "ngram", {"max_ngram": 3}),
    (
      "model_tree tree=chains:3x5  siblings=iid",
      "model_tree",
      {"tree": "chains:3x5", "siblings": "iid"},
    ),
  ],
)
def test_settings_stand_behind_a_name(text, name, values):
  assert parse(text) == (name, values)


@pytest.mark.parametrize(
  "text, fault",
  [
    ("  ", "has no name"),
    ("ngram 3", "'3' is no setting; give NAME=VALUE"),
    ("ngram max-ngram=3", "'max-ngram=3' is no setting"),
    ("ngram max_ngram=3 max_ngram=4", "sets max_ngram twice"),
  ],
)
def test_what_stands_behind_a_name_and_is_no_setting(text, fault):
  with pytest.raises(ValueError, match=fault):
    parse(text)


def test_a_draft_of_another_width_gets_the_target_s(tmp_path):
  small = nets.tiny_net(vocab_size=11, num_layers=1)
  params = nets.random_net(small)
  backend = tokenizers.Tokenizer(
    models.BPE({chr(97 + i): i for i in range(9)}, [])
  )
  backend.decoder = decoders.ByteLevel()
  tokenizer = Tokenizer(backend)
  checkpoints.save_checkpoint(
    tmp_path / "draft", small.config, params, tokenizer
  )
  settings = _settings(draft_model=str(tmp_path / "draft"))
  target = dataclasses.replace(TARGET, tokenizer=tokenizer)
  drafter, draft = registry.resolve("model", settings, target)
  assert drafter == DraftModel(Resized(small, 17))
  other = tokenizers.Tokenizer(models.BPE({"b": 0, "a": 1}, []))
  other.decoder = decoders.ByteLevel()
  target = dataclasses.replace(TARGET, tokenizer=Tokenizer(other))
  with pytest.raises(ValueError, match="at id 0: 'b' in the target, 'a'"):
    registry.resolve("model", settings, target)


@pytest.mark.parametrize("width", [5, 17, 20])
def test_resized_logits_are_the_draft_s_or_nothing(width):
  model = Resized(NET, width)
  tokens = jnp.asarray([[1, 4, 2]])
  positions = jnp.arange(3)[None]
  slots = Slots(tokens, positions, passes.causal(positions))
  cache = model.init_cache(1, 8)
  run = model(TARGET.params, slots, cache, taps=("hidden",))
  plain = NET(TARGET.params, slots, cache)
  assert run.logits.shape == (1, 3, width)
  shared = min(width, 17)
  np.testing.assert_array_equal(
    run.logits[..., :shared], plain.logits[..., :shared]
  )
  assert (run.logits[..., shared:] == -jnp.inf).all()
  kept = commit(cache, run.fresh, jnp.arange(3)[None], jnp.asarray([3]))
  one = jnp.full((1, 1), 3)
  beyond = Slots(jnp.full((1, 1), 19), one, passes.causal(one))
  assert not jnp.isnan(model(TARGET.params, beyond, kept).logits).any()


def test_an_import_path_is_called_with_what_it_names():
  settings = _settings(num_speculative_tokens=2, min_ngram=1)
  drafter, _ = registry.resolve(f"{HERE}:Outside", settings, TARGET)
  assert drafter == Outside(num_speculative_tokens=2, min_ngram=1)
  with pytest.raises(ValueError, match="needs table"):
    registry.check(f"{HERE}:Demanding", _settings())
  with pytest.raises(ValueError, match="it has no num_riders"):
    registry.check(f"{HERE}:Half", _settings())


@pytest.mark.parametrize(
  "name, settings, fault",
  [
    ("ngrm", {}, "unknown drafter 'ngrm': did you mean 'ngram'"),
    ("eagle9", {}, "choose from none, ngram, ngram_tree"),
    ("nowhere.at_all:X", {}, "cannot import drafter"),
    ("specjax.sampling:nothing", {}, "cannot import drafter"),
    ("specjax.sampling:draw", {}, "is no drafter: it has no siblings"),
    ("ngram", dict(num_speculative_tokens=0), "at least 1"),
    ("ngram", dict(draft_layers=2), "has no setting draft_layers"),
    ("ngram/", {}, "has a part without a name"),
    ("ngram/model+none", {}, r"mixes / .* and \+"),
    ("ngram+ngrm", {}, "unknown drafter 'ngrm'"),
    ("ngram/model", dict(draft_layers=1, tree="x"), "no part .* setting tree"),
    ("ngram/model", {}, "drafter 'model' needs either"),
    ("model+model_tree", dict(draft_layers=1), "2 parts of .* run one"),
    ("ngram", dict(min_ngram=5, max_ngram=2), "min_ngram <= max_ngram"),
    ("none", dict(max_ngram=2), "has no setting max_ngram"),
    ("ngram", dict(window=2), "no setting window; known are num_spec.*, min_n"),
    ("ngram", dict(max_ngram="x"), "max_ngram must be a whole number, got 'x'"),
    ("ngram", dict(max_ngram=True), "max_ngram must be a whole number"),
    ("model_tree", dict(draft_layers=1, tree="bush"), "unknown tree 'bush'"),
    (
      "model_tree",
      dict(draft_layers=1, num_speculative_tokens=5),
      "a tree 4 deep and cannot draft 5 tokens",
    ),
    ("eagle_tree", dict(draft_layers=1), "needs the folder of a trained"),
    ("model", {}, "needs either a draft model"),
    ("model", dict(draft_layers=1, draft_model="x/y"), "needs either"),
    ("model", dict(draft_model="nope"), "unknown model 'nope'"),
    (
      "model",
      dict(draft_layers=1, num_speculative_tokens=0),
      "num_speculative_tokens must be at least 1",
    ),
  ],
)
def test_what_cannot_be_is_refused_before_a_model_is_loaded(
  name, settings, fault
):
  with pytest.raises(ValueError, match=fault):
    registry.check(name, _settings(**settings))


def test_more_layers_than_the_target_has_are_refused():
  with pytest.raises(ValueError, match="draft of 3 layers"):
    registry.resolve("model", _settings(draft_layers=3), TARGET)


@pytest.mark.parametrize(
  "text, name, settings",
  [
    (
      '{"method": "ngram", "num_speculative_tokens": 4,'
      ' "prompt_lookup_max": 4}',
      "ngram",
      dict(num_speculative_tokens=4, min_ngram=4, max_ngram=4),
    ),
    (
      '{"model": "[ngram]", "num_speculative_tokens": 5}',
      "ngram",
      dict(num_speculative_tokens=5, min_ngram=5, max_ngram=5),
    ),
    (
      '{"method": "ngram", "prompt_lookup_min": 2, "prompt_lookup_max": 3}',
      "ngram",
      dict(min_ngram=2, max_ngram=3),
    ),
    (
      '{"model": "org/draft", "num_speculative_tokens": 3}',
      "model",
      dict(draft_model="org/draft", num_speculative_tokens=3),
    ),
    (
      {"method": "draft_model", "model": "d", "num_speculative_tokens": 1},
      "model",
      dict(draft_model="d", num_speculative_tokens=1),
    ),
  ],
)
def test_vllm_s_configuration_is_understood(text, name, settings):
  assert speculative_config.parse(text) == (name, _settings(**settings))


@pytest.mark.parametrize(
  "text, fault",
  [
    ("{", "no JSON"),
    ("[1]", "must be a JSON object"),
    ("{}", 'needs "method" or "model"'),
    ('{"method": "ngram", "magic": 1}', "unknown key 'magic'; supported are"),
    ('{"method": "oracle"}', "method 'oracle' is unknown"),
    ('{"method": "mlp_speculator", "model": "m"}', "needs recurrent heads"),
    ('{"method": "medusa"}', 'method "medusa" needs "model"'),
    ('{"method": "draft_model"}', 'needs "model"'),
    ('{"method": "ngram", "prompt_lookup_max": "4"}', "whole number"),
    ('{"method": "ngram", "num_speculative_tokens": true}', "whole number"),
    ('{"method": 3}', "must be a string"),
  ],
)
def test_other_configurations_are_refused_by_name(text, fault):
  with pytest.raises(ValueError, match=fault):
    speculative_config.parse(text)


def test_a_draft_length_is_a_whole_number():
  # Of other kinds the checked signatures of the tests complain first.
  with pytest.raises(ValueError, match="must be a whole number, got True"):
    NGram(num_speculative_tokens=True)
