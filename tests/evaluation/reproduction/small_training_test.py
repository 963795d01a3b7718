"""The loss against numpy, and training on a text that can be learned."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from specjax.evaluation.reproduction import small_training
from specjax.evaluation.reproduction.small_training import Recipe

VOCAB, CONTEXT = 8, 12
MODEL = small_training.small_decoder(1, 32, VOCAB, CONTEXT)
RECIPE = Recipe(100, windows=4, context=CONTEXT, rate=1e-2)


def test_sizes():
  config = small_training.small_decoder(3, 96, 512, 128).config
  assert (config.num_layers, config.hidden_size) == (3, 96)
  assert (config.num_heads, config.head_dim) == (3, 32)
  assert (config.vocab_size, config.intermediate_size) == (512, 256)


def test_loss_is_that_of_the_logits():
  params = MODEL.init(jax.random.key(0))
  rng = np.random.default_rng(0)
  windows = jnp.asarray(rng.integers(0, VOCAB, (3, CONTEXT + 1)), jnp.int32)
  inputs, following = np.asarray(windows)[:, :-1], np.asarray(windows)[:, 1:]
  logits = small_training.logits(MODEL, params, jnp.asarray(inputs))
  law = special.log_softmax(np.asarray(logits, np.float64), -1)
  wanted = -np.take_along_axis(law, following[..., None], -1).mean()
  got = small_training.loss(MODEL, params, windows)
  assert float(got) == pytest.approx(wanted, rel=1e-5)
  # What follows a token does not change the law after it.
  changed = inputs.copy()
  changed[:, 7:] = (changed[:, 7:] + 1) % VOCAB
  other = small_training.logits(MODEL, params, jnp.asarray(changed))
  np.testing.assert_allclose(other[:, :7], logits[:, :7], rtol=1e-5, atol=1e-5)
  assert not np.allclose(other[:, 7:], logits[:, 7:], atol=1e-2)


def test_cut():
  text = jnp.arange(10) * 3
  got = small_training.cut(text, jnp.asarray([0, 6]), 4)
  assert got.tolist() == [[0, 3, 6, 9], [18, 21, 24, 27]]


def test_training_learns_a_text_and_its_key_decides():
  text = np.arange(300, dtype=np.int32) % 7
  said = []
  params, losses = small_training.train(
    MODEL, text, RECIPE, jax.random.key(0), said.append
  )
  assert losses.shape == (100,) and losses[0] > 1.5
  assert losses[-1] < 0.1
  assert [line.partition(":")[0] for line in said] == [
    "step 50 of 100",
    "step 100 of 100",
  ]
  again, _ = small_training.train(MODEL, text, RECIPE, jax.random.key(0))
  jax.tree.map(np.testing.assert_array_equal, again, params)
  _, others = small_training.train(MODEL, text, RECIPE, jax.random.key(1))
  assert not np.array_equal(others, losses)


def test_a_text_shorter_than_a_window():
  with pytest.raises(ValueError, match="has 13 tokens and a window 13"):
    small_training.train(
      MODEL, np.zeros(13, np.int32), RECIPE, jax.random.key(0)
    )
