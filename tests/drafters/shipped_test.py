"""Drafters that come with the package: found by name, or by their target."""

import json

import pytest

from specjax.checkpoints.drafter_files import CONFIG
from specjax.drafters import DrafterSettings, registry, shipped, trained
from specjax.evaluation.runs import grid
from specjax.training import data

NONE = DrafterSettings()


@pytest.fixture
def folder(tmp_path, monkeypatch):
  """Two drafters of the default model, of which only the settings exist."""
  for kind in ("eagle1", "eagle3"):
    own = tmp_path / "smollm2-135m" / kind
    own.mkdir(parents=True)
    (own / CONFIG).write_text(json.dumps({"kind": kind}))
  monkeypatch.setattr(shipped, "FOLDER", tmp_path)
  return tmp_path


def test_a_name_is_a_folder(folder):
  assert shipped.names() == ["smollm2-135m:eagle1", "smollm2-135m:eagle3"]
  for model in ("smollm2-135m", "SmolLM2-135M-Instruct"):
    name = f"{model}:eagle3"
    assert shipped.find(name) == folder / "smollm2-135m" / "eagle3"
    assert trained.is_folder(name) and trained.kind_of(name) == "eagle3"
  for name in ("smollm2-135m", "smollm2-135m:medusa", "org/name:eagle3", ""):
    assert shipped.find(name) is None
    assert not trained.is_folder(name)


@pytest.mark.parametrize(
  "drafter, target, wanted",
  [
    ("eagle3", "smollm2-135m", "smollm2-135m:eagle3"),
    ("eagle", "smollm2-135m-instruct", "smollm2-135m:eagle3"),
    ("medusa", "smollm2-135m", None),
    ("eagle3", "some/other", None),
    ("ngram", "smollm2-135m", None),
    ("package.module:Class", "smollm2-135m", None),
  ],
)
def test_what_is_given_no_draft_takes_its_targets(
  folder, drafter, target, wanted
):
  assert registry.completed(drafter, NONE, target).draft_model == wanted


def test_a_draft_that_is_given_stays(folder):
  for own in (
    DrafterSettings(draft_model="mine"),
    DrafterSettings(draft_layers=3),
  ):
    assert registry.completed("eagle3", own, "smollm2-135m") == own


def test_a_grid_takes_them(folder):
  wanted = grid.Grid(drafters=("eagle3", "ngram"), target="smollm2-135m")
  found = [cell.settings.draft_model for cell in grid.expand(wanted)]
  assert found == [None, "smollm2-135m:eagle3", None]
  with pytest.raises(ValueError, match="needs the folder of"):
    grid.expand(grid.Grid(drafters=("eagle3",), target="some/other"))


def test_conversations_lie_beside_them(folder):
  assert shipped.conversations("smollm2-135m") is None
  file = folder / "smollm2-135m" / "chats.npz"
  file.touch()
  assert shipped.conversations("SmolLM2-135M-Instruct") == file
  assert shipped.conversations("org/name") is None
  assert len(shipped.names()) == 2


def test_what_is_shipped_is_whole():
  """Each conversation is the default model's; each drafter says its kind."""
  for name in shipped.names():
    assert trained.kind_of(name) == name.partition(":")[2]
  texts = data.unpack(shipped.conversations("smollm2-135m"))
  assert len({text.id for text in texts}) == len(texts) > 500
  assert max(max(text.token_ids) for text in texts) < 49152
