"""Commit writes the kept slots at each row's length, and nothing else."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specjax.models import cache as caches
from specjax.types import Cache, Fresh

KV_HEADS, HEAD_DIM, LAYERS = 2, 3, 2


def make_cache(length, capacity):
  """Every entry distinct and negative."""
  shape = (len(length), KV_HEADS, capacity, HEAD_DIM)
  size = int(np.prod(shape))
  values = -1.0 - np.arange(2 * LAYERS * size, dtype=np.float32)
  parts = [jnp.asarray(x.reshape(shape)) for x in np.split(values, 2 * LAYERS)]
  layers = tuple(zip(parts[::2], parts[1::2], strict=True))
  return Cache(layers=layers, length=jnp.asarray(length))


def make_fresh(batch, width):
  shape = (batch, KV_HEADS, width, HEAD_DIM)
  key = jax.random.split(jax.random.key(0), 2 * LAYERS)
  parts = [jax.random.uniform(k, shape) for k in key]
  return Fresh(kv=tuple(zip(parts[::2], parts[1::2], strict=True)))


def by_hand(old, new, slots, length, count):
  out = np.array(old)
  for b in range(out.shape[0]):
    for i in range(count[b]):
      if length[b] + i < out.shape[2]:
        out[b, :, length[b] + i] = new[b, :, slots[b][i]]
  return out


@pytest.mark.parametrize(
  "length, capacity, slots, count",
  [
    ([0, 4, 2], 12, [[0, 1, 2], [0, 2, 4], [0, 3, 3]], [3, 2, 1]),
    # Near the end: the block of 3 has to start before the length.
    ([10, 9, 11], 12, [[0, 1, 2], [0, 2, 4], [0, 3, 3]], [2, 3, 1]),
    # Past the end: what does not fit is dropped.
    ([11, 12, 10], 12, [[0, 1, 2], [0, 2, 4], [0, 3, 3]], [3, 2, 3]),
    # Nothing kept anywhere.
    ([0, 12, 11], 12, [[0, 1, 2]] * 3, [0, 0, 0]),
    # More slots than the cache holds.
    ([0, 1, 2], 2, [[4, 1, 2]] * 3, [3, 3, 3]),
  ],
)
def test_commit(length, capacity, slots, count):
  cache, fresh = make_cache(length, capacity), make_fresh(3, 5)
  arguments = cache, fresh, jnp.asarray(slots), jnp.asarray(count)
  out = jax.jit(caches.commit)(*arguments)
  for old, new, written in zip(
    jax.tree.leaves(cache.layers),
    jax.tree.leaves(fresh.kv),
    jax.tree.leaves(out.layers),
    strict=True,
  ):
    expected = by_hand(old, np.asarray(new), slots, length, count)
    np.testing.assert_array_equal(written, expected)
  total = np.minimum(np.add(length, count), capacity)
  np.testing.assert_array_equal(out.length, total)


def test_init_is_empty(config):
  cache = caches.init(config, 3, 7)
  assert [x.shape for x in jax.tree.leaves(cache.layers)] == [(3, 2, 7, 8)] * 4
  assert cache.length.tolist() == [0, 0, 0]


def test_a_token_after_a_commit_at_the_end_is_unharmed(lab):
  """Valid keys survive: the last position's logits are the full pass's."""
  tokens = lab.tokens(0, 1, 8)
  _, cache = lab.append(lab.model.init_cache(1, 8), tokens[:, :6])
  # Five slots run at length 6 of 8, two of them kept.
  padded = jnp.concatenate([tokens[:, 6:7], lab.tokens(1, 1, 4)], axis=1)
  _, cache = lab.append(cache, padded, [1])
  out, _ = lab.append(cache, tokens[:, 7:])
  np.testing.assert_allclose(
    out.logits[:, 0], lab.full(tokens).logits[:, -1], rtol=1e-5, atol=1e-5
  )
