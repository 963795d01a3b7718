"""Tiny decoders and the passes that tests run on them."""

import functools

import jax
import jax.numpy as jnp
import pytest

from specjax.models import cache as caches
from specjax.models.config import DecoderConfig, RopeScaling
from specjax.models.decoder import Transformer
from specjax.types import Slots


@functools.partial(jax.jit, static_argnames=("model", "taps"))
def _run(model, params, slots, cache, scratch=None, readout=None, taps=()):
  return model(
    params, slots, cache, scratch=scratch, readout=readout, taps=taps
  )


_commit = jax.jit(caches.commit)


class Lab:
  """A model with its weights, and short ways to feed it."""

  def __init__(self, model, params):
    self.model, self.params = model, params

  def tokens(self, seed, batch, width):
    shape, vocab = (batch, width), self.model.vocab_size
    return jax.random.randint(jax.random.key(seed), shape, 0, vocab)

  def chain(self, tokens, start):
    """Slots of consecutive positions from `start` [B], causally masked."""
    width = tokens.shape[1]
    positions = jnp.asarray(start)[:, None] + jnp.arange(width)[None]
    mask = jnp.tril(jnp.ones((1, width, width), bool))
    return Slots(tokens=tokens, positions=positions, mask=mask)

  def run(self, slots, cache, **options):
    return _run(self.model, self.params, slots, cache, **options)

  def full(self, tokens):
    """One pass over whole rows, nothing cached."""
    batch = tokens.shape[0]
    slots = self.chain(tokens, jnp.zeros(batch, jnp.int32))
    return self.run(slots, self.model.init_cache(batch, 0))

  def append(self, cache, tokens, count=None):
    """Runs tokens as a chain and commits the first `count` of each row."""
    batch, width = tokens.shape
    out = self.run(self.chain(tokens, cache.length), cache)
    slots = jnp.broadcast_to(jnp.arange(width)[None], (batch, width))
    count = jnp.full(batch, width) if count is None else jnp.asarray(count)
    return out, _commit(cache, out.fresh, slots, count)


CONFIG = DecoderConfig(
  vocab_size=61,
  hidden_size=24,
  intermediate_size=40,
  num_layers=2,
  num_heads=6,
  num_kv_heads=2,
  head_dim=8,
  max_positions=2048,
  rope_theta=500.0,
  rope_scaling=RopeScaling(original_max_positions=64),
)


@pytest.fixture(scope="session")
def config():
  return CONFIG


@pytest.fixture(scope="session")
def lab():
  model = Transformer(CONFIG)
  return Lab(model, model.init(jax.random.key(0)))


@pytest.fixture(scope="session")
def make_lab():
  def make(config, params=None):
    model = Transformer(config)
    if params is None:
      params = model.init(jax.random.key(0))
    return Lab(model, params)

  return make
