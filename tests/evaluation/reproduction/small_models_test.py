"""What is trained, and on what; the trainer itself is stubbed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specjax.evaluation.reproduction import (
  Settings,
  small_models,
  small_training,
)


@pytest.fixture
def untrained(monkeypatch):
  """What was asked of the trainer, which leaves weights of zeros."""
  asked = []

  def train(model, text, recipe, key, say):
    asked.append((model.config, len(text), recipe, jax.random.key_data(key)))
    say("step 1 of 1")
    zeros = jax.tree.map(
      lambda x: jnp.zeros(x.shape, x.dtype), model.abstract_params()
    )
    return zeros, np.ones(3)

  monkeypatch.setattr(small_training, "train", train)
  return asked


def test_what_is_trained(untrained, tmp_path):
  path, said = tmp_path / "text.txt", []
  path.write_bytes(bytes(i % 90 + 33 for i in range(60_000)))
  settings = Settings(text_file=str(path), say=said.append)
  sizes = small_models.Sizes(vocab_size=256, prompts=3)
  made = small_models.train(settings, sizes)
  (target, length, recipe, key), (draft, *_, other) = untrained
  assert length == 54_000 and recipe == sizes.recipe
  assert not np.array_equal(key, other)
  assert (target.num_layers, target.hidden_size) == (4, 128)
  assert (draft.num_layers, draft.hidden_size) == (2, 64)
  assert said[0] == "training the target, 4 layers of 128: step 1 of 1"
  assert list(made.losses) == list(made.held_out)
  # Zeros say nothing of 256 pieces: 8 bits.
  assert list(made.held_out.values()) == [pytest.approx(8.0)] * 2
  assert list(made.drafts) == ["unigram", "bigram", "two layers"]
  weights = [
    sum(x.size for x in jax.tree.leaves(tree))
    for tree in (made.drafts["two layers"].weights, made.params)
  ]
  assert made.drafts["two layers"].cost == weights[0] / weights[1] < 0.2


def test_a_text_that_merges_away(untrained, tmp_path):
  path = tmp_path / "text.txt"
  path.write_bytes(b"a" * 60_000)
  with pytest.raises(ValueError, match="alpha is measured on stretches of 128"):
    small_models.train(Settings(text_file=str(path)), small_models.FULL)
  assert not untrained
