"""Attention equals a dense softmax over what each slot may see."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specjax.models import attention


def dense(query, cached, length, fresh, mask):
  """The definition, a head at a time, in float64."""
  batch, heads, width, head_dim = query.shape
  group = heads // cached[0].shape[1]
  out = np.zeros(query.shape)
  for b in range(batch):
    for h in range(heads):
      keys, values = (
        np.concatenate([c[b, h // group, : length[b]], f[b, h // group]])
        for c, f in zip(cached, fresh, strict=True)
      )
      for w in range(width):
        seen = np.ones(length[b] + fresh[0].shape[2], bool)
        seen[length[b] :] = mask[b % len(mask), w]
        scores = keys.astype(np.float64) @ query[b, h, w] / head_dim**0.5
        weights = np.where(seen, np.exp(scores - scores[seen].max()), 0)
        out[b, h, w] = weights @ values / weights.sum()
  return out


@pytest.mark.parametrize(
  "batch, kv_heads, group, width, capacity, lengths",
  [
    (2, 2, 3, 5, 300, (0, 300)),
    (1, 1, 4, 1, 150, (149,)),
    (9, 2, 1, 3, 130, (0, 1, 63, 64, 65, 128, 129, 130, 7)),
    (3, 2, 2, 2, 40, (40, 3, 0)),
  ],
)
def test_attend(batch, kv_heads, group, width, capacity, lengths):
  rng = np.random.default_rng(0)

  def normal(*shape):
    return rng.normal(size=shape).astype(np.float32)

  # A large key past the length would take all the weight.
  cached = tuple(normal(batch, kv_heads, capacity, 8) for _ in range(2))
  for b, length in enumerate(lengths):
    cached[0][b, :, length:] *= 100
  query = 3 * normal(batch, kv_heads * group, width, 8)
  fresh = tuple(normal(batch, kv_heads, width + 2, 8) for _ in range(2))
  mask = rng.random((batch, width, width + 2)) < 0.5
  mask[:, np.arange(width), 2 + np.arange(width)] = True
  arguments = query, cached, np.asarray(lengths), fresh, mask
  out = jax.jit(attention.attend)(*jax.tree.map(jnp.asarray, arguments))
  np.testing.assert_allclose(out, dense(*arguments), rtol=1e-4, atol=1e-5)


def test_an_empty_cache_leaves_no_trace():
  """Lengths of 0 give the very bits of a pass without a cache."""
  key = jax.random.split(jax.random.key(0), 3)
  query = jax.random.normal(key[0], (2, 4, 3, 8))
  fresh = (jax.random.normal(key[1], (2, 2, 3, 8)),) * 2
  dead = (jax.random.normal(key[2], (2, 2, 20, 8)),) * 2
  none = (jnp.zeros((2, 2, 0, 8)),) * 2
  mask, length = jnp.tril(jnp.ones((1, 3, 3), bool)), jnp.zeros(2, jnp.int32)
  np.testing.assert_array_equal(
    attention.attend(query, dead, length, fresh, mask),
    attention.attend(query, none, length, fresh, mask),
  )
