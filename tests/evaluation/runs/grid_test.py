"""From lists of drafters and settings to modes."""

import dataclasses

import jax
import pytest

from specjax import topologies
from specjax.checkpoints.loaded import LoadedModel
from specjax.drafters import (
  DrafterSettings,
  DraftModel,
  DraftTree,
  NGram,
  NoDraft,
  registry,
)
from specjax.evaluation.runs import grid
from specjax.evaluation.runs.grid import Cell, Grid
from specjax.testing.nets import random_net, tiny_net

NET = tiny_net()
TARGET = LoadedModel("tiny", NET, random_net(NET))


def modes(**settings):
  methods = grid.resolve(grid.expand(Grid(**settings)), TARGET)
  return {m.mode.name: m for m in methods}


def test_everything_is_crossed_and_plain_comes_with_each_law():
  found = modes(
    drafters=("ngram", "model"),
    num_speculative_tokens=(2, 5),
    temperatures=(0.0, 1.0),
    draft_layers=1,
  )
  one_law = ["none", "ngram k=2", "ngram k=5", "model k=2", "model k=5"]
  assert list(found) == one_law + [f"{name} T=1" for name in one_law]
  for name, method in found.items():
    mode = method.mode
    assert mode.law == ((1.0 if "T=1" in name else 0.0), 0, 1.0, 0.0)
    assert mode.is_plain == name.startswith("none")
    assert mode.num_speculative_tokens == method.drafter.max_depth
    assert mode.lossless is True and mode.system == "specjax"
  assert found["ngram k=2"].drafter == NGram(2)
  assert found["none T=1"].drafter == NoDraft()
  draft = found["model k=5 T=1"]
  assert isinstance(draft.drafter, DraftModel)
  assert draft.mode.rule == "rejection"
  assert draft.mode.options == {"draft_layers": 1}
  assert found["ngram k=2"].mode.rule == "exact_match"
  assert found["ngram k=2"].mode.options == {}


def test_a_drafter_s_own_settings_stand_in_place_of_the_grid_s():
  found = modes(
    drafters=(
      "model num_speculative_tokens=3 draft_layers=2 rule=lossy_lenience"
      " lenience=0.5",
      "ngram num_speculative_tokens=10 max_ngram=3 temperature=0",
    ),
    num_speculative_tokens=(2, 5),
    temperatures=(0.0, 1.0),
    rules=("exact_match",),
    draft_layers=1,
  )
  lossy = "model k=3 draft_layers=2 lenience=0.5 lossy_lenience"
  lookup = "ngram k=10 max_ngram=3 exact_match"
  assert list(found) == ["none", lossy, lookup, "none T=1", f"{lossy} T=1"]
  assert found[lossy].mode.lossless is False
  assert found[lossy].mode.options == {"draft_layers": 2, "lenience": 0.5}
  assert found[lookup].drafter == NGram(10, max_ngram=3)


def test_a_tree_s_name_tells_its_depth_and_nodes():
  tree = "expand:2x2x1"
  found = modes(
    drafters=("model_tree", f"model_tree tree={tree} siblings=point"),
    draft_layers=1,
  )
  name = f"model_tree k=3 n=10 tree={tree} siblings=point"
  assert list(found) == ["none", "model_tree k=4 n=21", name]
  method = found[name]
  assert method.drafter == DraftTree(
    method.drafter.model, topologies.expansion((2, 2, 1)), "point"
  )
  assert method.mode.rule == "exact_match"
  assert found["model_tree k=4 n=21"].mode.rule == "recursive_rejection"
  wanted = {"draft_layers": 1, "tree": tree, "siblings": "point"}
  assert method.mode.options == wanted


def test_rules_and_filters_are_part_of_a_name():
  found = modes(
    drafters=("ngram",),
    rules=("exact_match", "rejection"),
    temperatures=(0.7,),
    top_p=0.9,
  )
  end = "T=0.7 top_p=0.9"
  assert list(found) == [
    f"none {end}",
    f"ngram k=7 exact_match {end}",
    f"ngram k=7 rejection {end}",
  ]
  assert found[f"none {end}"].sampling.top_p == 0.9


def test_a_draft_is_loaded_once_for_all_lengths(monkeypatch):
  calls, original = [], registry.load_draft

  def load_draft(*arguments):
    calls.append(arguments)
    return original(*arguments)

  monkeypatch.setattr(registry, "load_draft", load_draft)
  found = modes(
    drafters=("model", "model draft_layers=2", "model_tree"),
    num_speculative_tokens=(1, 2, 3),
    draft_layers=1,
  )
  assert len(calls) == 2
  depths = [m.drafter.max_depth for m in found.values()]
  assert depths == [0, 1, 2, 3, 1, 2, 3, 1, 2, 3]
  layers = [len(jax.tree.leaves(m.draft)) for m in found.values()][1:]
  assert len(set(layers[:3] + layers[6:])) == len(set(layers[3:6])) == 1
  assert layers[0] < layers[3]


def test_the_same_mode_twice_is_one():
  assert len(grid.expand(Grid(drafters=("ngram", "none", "ngram")))) == 2


@pytest.mark.parametrize(
  "settings, fault",
  [
    ({"drafters": ("ngramm",)}, "did you mean 'ngram'"),
    ({"drafters": ("model",)}, "needs either a draft model"),
    ({"drafters": ("ngram depth=3",)}, "has no setting depth; known"),
    ({"drafters": ("ngram k",)}, "'k' is no setting"),
    ({"drafters": ("",)}, "no name"),
    ({"drafters": ("ngram draft_layers=2",)}, "has no setting draft_layers"),
    ({"drafters": ("ngram",), "rules": ("nope",)}, "unknown rule 'nope'"),
    ({"drafters": ("ngram",), "num_speculative_tokens": (0,)}, "at least 1"),
    ({"temperatures": (-1.0,)}, "temperature must be"),
    ({"top_p": 0.0}, "top_p must be"),
  ],
)
def test_what_is_wrong_is_said_before_a_model_is_loaded(settings, fault):
  with pytest.raises(ValueError, match=fault):
    grid.expand(Grid(**settings))


def test_two_modes_of_one_name_are_refused():
  cell = Cell(drafter="ngram")
  other = dataclasses.replace(cell, settings=DrafterSettings.of(max_ngram=3))
  with pytest.raises(ValueError, match="two modes are called 'ngram k=7'"):
    grid.resolve([cell, other], TARGET)
