"""Heads begin as the language head, and each is what its paper writes."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specjax.models.heads import (
  Blockwise,
  HeadsNet,
  Medusa,
  vocabulary_rows,
)
from specjax.testing import nets

D, V, K = 6, 11, 3
NETS = [
  Medusa(D, V, K),
  Medusa(D, V, K, num_layers=2, own_heads=False),
  Blockwise(D, V, inner_size=4, num_heads=K),
]
NAMES = ["medusa", "medusa, shared rows", "blockwise"]


def _normal(seed, *shape):
  return jax.random.normal(jax.random.key(seed), shape)


def _weights(net, noise=0.0):
  rows = _normal(0, V, D)
  params = net.init(jax.random.key(1), rows)
  if not net.own_heads:
    params["head"] = {"kernel": rows}
  return nets.perturb(params, 2, noise) if noise else params


def _numpy(tree):
  return jax.tree.map(lambda x: np.asarray(x, np.float64), tree)


@pytest.mark.parametrize("net", NETS, ids=NAMES)
def test_an_untrained_head_is_the_language_head(net):
  assert isinstance(net, HeadsNet) and hash(net) == hash(
    dataclasses.replace(net)
  )
  hidden = _normal(3, 2, 4, D)
  logits = net(_weights(net), hidden)
  wanted = np.einsum("btd,vd->btv", hidden, _normal(0, V, D))
  assert logits.shape == (2, 4, K, V)
  for k in range(K):
    np.testing.assert_allclose(logits[:, :, k], wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("net", NETS, ids=NAMES)
def test_the_first_heads_are_a_prefix_of_all(net):
  params, hidden = _weights(net, noise=0.5), _normal(3, 2, D)
  every = net(params, hidden)
  np.testing.assert_allclose(net(params, hidden, 2), every[:, :2], rtol=1e-5)
  trunk = net.trunk(params, hidden)
  for k in range(K):
    one = net.logits_of(params, params[f"heads_{k}"], trunk, hidden)
    np.testing.assert_allclose(one, every[:, k], rtol=1e-5, atol=1e-5)


def _silu(x):
  return x / (1 + np.exp(-x))


def test_medusa_is_what_its_paper_writes():
  net = Medusa(D, V, K, num_layers=2)
  params = nets.perturb(_weights(net), 4)
  params = jax.tree.map(lambda x: x + 0.3 * _normal(5, *x.shape), params)
  p, h = _numpy(params), np.asarray(_normal(3, D), np.float64)
  got = net(params, _normal(3, D))
  for k in range(K):
    one, x = p[f"heads_{k}"], h
    for block in (one["blocks_0"], one["blocks_1"]):
      x = _silu(block["kernel"] @ x + block["bias"]) + x
    wanted = one["head"]["kernel"] @ x
    np.testing.assert_allclose(got[k], wanted, rtol=1e-4, atol=1e-5)


def test_blockwise_is_what_its_paper_writes():
  net = NETS[2]
  params = jax.tree.map(lambda x: x + 0.3 * _normal(5, *x.shape), _weights(net))
  p, h = _numpy(params), np.asarray(_normal(3, D), np.float64)
  got = net(params, _normal(3, D))
  inner = np.maximum(p["inner"]["kernel"] @ h + p["inner"]["bias"], 0)
  assert inner.shape == (K * 4,)
  outer = np.concatenate([p[f"heads_{k}"]["kernel"] for k in range(K)])
  bias = np.concatenate([p[f"heads_{k}"]["bias"] for k in range(K)])
  slices = (outer @ inner + bias).reshape(K, D) + h
  wanted = slices @ p["head"]["kernel"].T
  np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


def test_rows_of_a_reduced_vocabulary():
  tied = {"embed": {"embedding": _normal(0, V, D)}}
  ids = jnp.asarray([1, 4, 9])
  assert vocabulary_rows(tied) is tied["embed"]["embedding"]
  untied = tied | {"head": {"kernel": _normal(1, V, D)}}
  np.testing.assert_array_equal(
    vocabulary_rows(untied, ids), untied["head"]["kernel"][np.asarray(ids)]
  )


def test_bfloat16_weights_give_float32_logits():
  for net in NETS:
    params = jax.tree.map(lambda x: x.astype(jnp.bfloat16), _weights(net))
    assert net(params, _normal(3, 2, D)).dtype == jnp.float32


@pytest.mark.parametrize("field", ["num_heads", "num_layers", "vocab_size"])
def test_no_size_is_below_one(field):
  with pytest.raises(ValueError, match=f"{field} of Medusa must be at least 1"):
    dataclasses.replace(NETS[0], **{field: 0})
