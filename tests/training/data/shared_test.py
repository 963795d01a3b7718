"""Stores that trainings share: what each draws is its own alone."""

import dataclasses

import jax
import numpy as np
import pytest

from specjax.training.data import (
  Batches,
  Conversation,
  Labelling,
  answer_tokens,
  cover,
  first_tokens,
  is_held_out,
)

LABELLING = Labelling(5, ("hidden", "layer_0"), "float32", "float32", 96)
LESS = dataclasses.replace(LABELLING, top_k=3, taps=("hidden",))


@pytest.fixture(scope="module")
def shared(net, texts, tmp_path_factory):
  """A store of some texts, in another order than the trainings'."""
  path = tmp_path_factory.mktemp("shared") / "store"
  cover(net, texts[4::-1], path, LABELLING)
  return path


def test_a_store_with_more_gives_what_one_with_less_does(
  net, texts, shared, tmp_path
):
  said = []
  wide = cover(net, texts[:4], shared, LESS, said.append)
  assert said == [f"all 4 texts are labelled in {shared}"]
  own = cover(net, texts[:4], tmp_path / "own", LESS)
  given = dict(batch=4, length=8, side="all", top_k=3, taps=("hidden",))
  pairs = zip(
    jax.tree.leaves(Batches([wide], **given)(1)),
    jax.tree.leaves(Batches([own], **given)(1)),
    strict=True,
  )
  for a, b in pairs:
    np.testing.assert_allclose(a, b, atol=1e-6)


def test_what_a_store_lacks_is_labelled_as_the_rest_is(net, texts, shared):
  renamed = dataclasses.replace(net, name="elsewhere")
  view = cover(renamed, texts[3:7], shared, LESS)
  assert [e.id for e in view.entries] == [t.id for t in texts[3:7]]
  assert view.settings["top_k"] == 5 and "layer_0" in view.settings["taps"]
  assert view.settings["model"]["name"] == "net"
  assert len(cover(net, texts[:7], shared, LESS)) == 7


@pytest.mark.parametrize(
  "labelling, fault",
  [
    (dataclasses.replace(LESS, top_k=6), "has the 5 likeliest.* 6 are wanted"),
    (dataclasses.replace(LESS, taps=("layer_1",)), "no feature 'layer_1'"),
    (dataclasses.replace(LESS, log_probs_dtype="float16"), "log_probs_dtype"),
  ],
)
def test_what_a_store_lacks_of_a_law_is_named(
  net, texts, shared, labelling, fault
):
  with pytest.raises(ValueError, match=fault):
    cover(net, texts[:1], shared, labelling)


def test_labels_of_another_model_are_refused(net, texts, shared):
  other = jax.tree.map(lambda leaf: leaf + 1, net.params)
  with pytest.raises(ValueError, match="has labels of net"):
    cover(dataclasses.replace(net, params=other), texts[:1], shared, LESS)


def test_a_smaller_training_keeps_what_is_held_out(texts):
  twice = [*texts, texts[0]]
  everything = first_tokens(twice, 0.5, None)
  assert everything == texts
  held = [t for t in texts if is_held_out(t.prompt_id, 0.5)]
  train = [t for t in texts if t not in held]
  assert held and len(train) > 2
  room = train[0].new_tokens + train[1].new_tokens
  few = first_tokens(twice, 0.5, room + train[2].new_tokens - 1)
  assert [t for t in few if t in held] == held
  assert [t for t in few if t not in held] == train[:2]
  assert answer_tokens(few, 0.5) == room < answer_tokens(texts, 0.5)
  with pytest.raises(ValueError, match="max_tokens of 1 is less"):
    first_tokens(texts, 0.5, 1)


def test_the_first_texts_are_taken_without_a_gap():
  sizes = {"a": 4, "b": 9, "c": 2}
  texts = [
    Conversation(name, "prompt", (1,) * (n + 1), ((1, n + 1),), 1.0, name)
    for name, n in sizes.items()
  ]
  kept = {m: len(first_tokens(texts, 0.0, m)) for m in (4, 7, 12, 13, 14, 15)}
  assert kept == {4: 1, 7: 1, 12: 1, 13: 2, 14: 2, 15: 3}
