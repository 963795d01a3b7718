"""Tiny random transformers, and drafts that resemble them."""

import functools

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from specjax.models.config import DecoderConfig
from specjax.models.decoder import Transformer


def tiny_net(
  vocab_size: int = 17, num_layers: int = 2, max_positions: int = 1 << 20
) -> Transformer:
  """A decoder whose head ratio (3) differs from its kv heads (2)."""
  return Transformer(
    DecoderConfig(
      vocab_size=vocab_size,
      hidden_size=24,
      intermediate_size=32,
      num_layers=num_layers,
      num_heads=6,
      num_kv_heads=2,
      head_dim=4,
      max_positions=max_positions,
    )
  )


@functools.cache
def random_net(model: Transformer, seed: int = 0, scale: float = 4.0) -> PyTree:
  """Random weights, with embeddings scaled so that the law is not flat."""
  params = model.init(jax.random.key(seed))
  embedding = params["embed"]["embedding"] * scale
  return params | {"embed": {"embedding": embedding}}


def perturb(params: PyTree, seed: int, amount: float = 0.05) -> PyTree:
  """A draft: weights plus noise, `amount` times their array's deviation."""
  leaves, shape = jax.tree.flatten(params)
  keys = jax.random.split(jax.random.key(seed), len(leaves))
  noisy = [
    x + amount * (jnp.std(x) + 1e-3) * jax.random.normal(key, x.shape, x.dtype)
    for x, key in zip(leaves, keys, strict=True)
  ]
  return jax.tree.unflatten(shape, noisy)
