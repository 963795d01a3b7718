"""A draft of a reduced vocabulary says the target's tokens."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specjax import passes
from specjax.checkpoints import base
from specjax.models import decoder
from specjax.models.decoder import Transformer
from specjax.models.reduced import Reduced, to_target_vocabulary
from specjax.testing import nets
from specjax.types import Model, Slots

IDS = jnp.asarray([0, 3, 4, 11, 16])


def test_each_logit_stands_at_its_token():
  logits = jax.random.normal(jax.random.key(0), (2, 3, 5))
  wide = np.asarray(to_target_vocabulary(logits, IDS, 17))
  np.testing.assert_array_equal(wide[..., np.asarray(IDS)], logits)
  rest = np.setdiff1d(np.arange(17), IDS)
  assert (wide[..., rest] == -np.inf).all() and wide.shape == (2, 3, 17)


def test_the_gradient_is_that_of_the_logits_taken():
  logits = jax.random.normal(jax.random.key(1), (5,))
  weights = jnp.arange(17.0)

  def total(logits):
    wide = to_target_vocabulary(logits, IDS, 17)
    return jnp.where(wide > -jnp.inf, wide * weights, 0.0).sum()

  np.testing.assert_array_equal(jax.grad(total)(logits), weights[IDS])


def _pass(model, params):
  tokens = jnp.asarray([[16, 2, 7]])
  slots = Slots(tokens, jnp.arange(3)[None], passes.causal(tokens))
  return model(params, slots, model.init_cache(1, 0))


@pytest.mark.parametrize("tied", [True, False])
def test_a_decoder_with_rows_of_its_head_equals_the_whole(tied):
  config = dataclasses.replace(nets.tiny_net().config, tie_embeddings=tied)
  whole = Transformer(config)
  params = whole.init(jax.random.key(0))
  head = params["embed"]["embedding"] if tied else params["head"]["kernel"]
  small = Transformer(dataclasses.replace(config, head_size=len(IDS)))
  model = Reduced(small, config.vocab_size)
  assert isinstance(model, Model) and model.vocab_size == whole.vocab_size
  cut = params | {"head": {"kernel": head[IDS]}}
  weights = {"model": cut, "token_ids": IDS}
  got, wanted = _pass(model, weights).logits, _pass(whole, params).logits
  np.testing.assert_allclose(got[..., IDS], wanted[..., IDS], rtol=1e-5)
  assert np.isneginf(np.delete(got, np.asarray(IDS), -1)).all()
  # Every table of the config's weights knows of the head.
  shapes = jax.tree.map(jnp.shape, small.abstract_params())
  assert shapes == jax.tree.map(jnp.shape, cut)
  assert base.shapes(small.config)["head/kernel"] == (len(IDS), 24)
  axes = decoder.logical_axes(small.config)
  assert axes["head"] == {"kernel": ("vocab", "embed")}


def test_a_head_larger_than_the_vocabulary_is_refused():
  with pytest.raises(ValueError, match="head of 18 outputs does not fit"):
    dataclasses.replace(nets.tiny_net().config, head_size=18)
