"""Shards: whole or not at all, appended as at once, of one setting."""

import json

import numpy as np
import pytest

from specjax.training.data import Labelling, Store, label, labels
from specjax.training.data import store as stores

LABELLING = Labelling(
  top_k=4, taps=("hidden",), tokens_a_pass=96, features_dtype="float32"
)


def _read(path):
  store = Store(path)
  return {
    (entry.id, entry.prompt_id): store.read(i)
    for i, entry in enumerate(store.entries)
  }


def _same(a, b):
  assert a.keys() == b.keys()
  for key, one in a.items():
    for name, value in vars(one).items():
      other = getattr(b[key], name)
      if name == "features":
        assert value.keys() == other.keys()
        value, other = value["hidden"], other["hidden"]
      np.testing.assert_array_equal(value, other)


@pytest.fixture(scope="module")
def whole(net, texts, tmp_path_factory):
  path = tmp_path_factory.mktemp("store")
  label(net, texts, path, LABELLING)
  return path


def test_a_store_gives_back_what_was_labelled(whole, net, texts):
  store = Store(whole)
  assert len(store) == len(texts) and store.vocab_size == 17
  found = labels(net, texts, LABELLING)
  for i, (entry, one) in enumerate(zip(store.entries, found, strict=True)):
    text, span = one.conversation, store.read(i)
    assert (entry.id, entry.source) == (text.id, "prompt")
    assert (entry.prompt_id, entry.temperature) == (text.prompt_id, 1.0)
    assert entry.answered == text.mask.sum()
    assert tuple(span.tokens.tolist()) == text.token_ids
    np.testing.assert_array_equal(span.mask, text.mask)
    np.testing.assert_array_equal(span.top_ids, one.top_ids)
    np.testing.assert_array_equal(
      span.top_log_probs, one.top_log_probs.astype(np.float16)
    )
    np.testing.assert_array_equal(span.log_tail, one.log_tail)
    np.testing.assert_array_equal(
      span.features["hidden"], one.features["hidden"]
    )
    part = store.read(i, 1, 3, features=())
    np.testing.assert_array_equal(part.tokens, span.tokens[1:3])
    np.testing.assert_array_equal(part.top_ids, span.top_ids[1:3])
    assert part.features == {}


def test_appended_shards_are_shards_made_at_once(whole, net, texts, tmp_path):
  for size in (3, 7, len(texts)):
    progress = label(net, texts[:size], tmp_path, LABELLING)
  assert progress.done == len(texts)
  assert (
    len(json.loads((tmp_path / "manifest.json").read_text())["shards"]) == 3
  )
  _same(_read(tmp_path), _read(whole))
  before = sorted(p.name for p in tmp_path.iterdir())
  assert label(net, texts, tmp_path, LABELLING).tokens == 0  # all is there
  assert sorted(p.name for p in tmp_path.iterdir()) == before


def test_a_kill_between_shard_and_manifest_loses_no_text(
  whole, net, texts, tmp_path, monkeypatch
):
  """Small shards, and a kill right after one was renamed."""
  monkeypatch.setattr(stores, "SHARD_BYTES", 1)
  write, left = stores._write_manifest, [2]

  def killed(*args):
    left[0] -= 1
    if left[0] < 0:
      raise KeyboardInterrupt
    write(*args)

  settings = LABELLING.settings(net)
  found = list(labels(net, texts, LABELLING))
  monkeypatch.setattr(stores, "_write_manifest", killed)
  with pytest.raises(KeyboardInterrupt):
    with stores.claim(tmp_path, settings, shard_bytes=1) as writer:
      for one in found:
        writer.add(one)
  monkeypatch.setattr(stores, "_write_manifest", write)
  (tmp_path / "shard-00009.safetensors.part").write_bytes(b"half")
  assert len(Store(tmp_path)) == 2
  label(net, texts, tmp_path, LABELLING)
  _same(_read(tmp_path), _read(whole))


def test_other_settings_and_other_folders_are_refused(whole, net, texts, draft):
  for other, named in (
    (Labelling(top_k=3, taps=("hidden",)), "top_k is 4 there and 3 now"),
    (Labelling(top_k=4), r"taps is \['hidden'\] there and \[\] now"),
  ):
    with pytest.raises(ValueError, match=named):
      label(net, texts, whole, other)
  with pytest.raises(ValueError, match="model is"):
    label(draft, texts, whole, LABELLING)
  with pytest.raises(ValueError, match="no store of labelled texts"):
    Store(whole / "none")


def test_a_weight_that_changes_is_another_model(net):
  from specjax.checkpoints.loaded import LoadedModel
  from specjax.training.data import identify

  scale = net.params["norm"]["scale"].at[3].add(1e-3)
  tuned = LoadedModel("net", net.model, net.params | {"norm": {"scale": scale}})
  assert identify(tuned)["sha256"] != identify(net)["sha256"]
  same = LoadedModel("copy", net.model, net.params)
  assert identify(same)["sha256"] == identify(net)["sha256"]
