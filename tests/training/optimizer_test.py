"""The schedule, what is decayed, and what is refused."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from specjax.training.optimizer import Optimizer

PARAMS = {"kernel": jnp.ones((2, 2)), "scale": jnp.ones(2)}
NOTHING = {"kernel": jnp.zeros((2, 2)), "scale": jnp.zeros(2)}


def test_the_rate_rises_and_falls():
  schedule = Optimizer(
    learning_rate=1.0, warmup_steps=4, last_share=0.2
  ).schedule(10)
  rates = [float(schedule(i)) for i in range(10)]
  np.testing.assert_allclose(rates[:4], [0.25, 0.5, 0.75, 1.0])
  assert all(a > b for a, b in zip(rates[3:], rates[4:], strict=False))
  half = (1 + 0.2) / 2
  np.testing.assert_allclose(rates[6], half, rtol=1e-6)
  np.testing.assert_allclose(rates[9], 0.2, rtol=1e-6)


def test_the_rate_may_stay():
  schedule = Optimizer(
    learning_rate=0.5, warmup_steps=0, decay="constant"
  ).schedule(3)
  assert [float(schedule(i)) for i in range(3)] == [0.5] * 3


def test_matrices_alone_are_decayed():
  made = Optimizer(
    learning_rate=0.1, warmup_steps=0, decay="constant", weight_decay=0.5
  )
  optimizer = made.make(10)
  change, _ = optimizer.update(NOTHING, optimizer.init(PARAMS), PARAMS)
  np.testing.assert_allclose(change["kernel"], -0.05, rtol=1e-6)
  np.testing.assert_array_equal(change["scale"], jnp.zeros(2))


def test_a_gradient_is_clipped_before_it_is_remembered():
  made = Optimizer(learning_rate=0.1, warmup_steps=0, clip=0.5, b1=0.0)
  optimizer = made.make(10)
  large = {"kernel": jnp.full((2, 2), 1e3), "scale": jnp.zeros(2)}
  _, state = optimizer.update(large, optimizer.init(PARAMS), PARAMS)
  moments = optax.tree.get(state, "mu")
  np.testing.assert_allclose(optax.tree.norm(moments), 0.5, rtol=1e-6)


def test_muon_moves_along_all_singular_vectors_alike():
  """The polar factor of the gradient, by numpy, at AdamW's size."""
  slope = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
  left, _, right = np.linalg.svd(slope, full_matrices=False)
  size = 0.2 * np.sqrt(6)
  made = Optimizer(
    method="muon",
    learning_rate=0.1,
    warmup_steps=0,
    decay="constant",
    weight_decay=0.5,
  )
  optimizer = made.make(10)
  params = {"kernel": jnp.ones((6, 4)), "scale": jnp.ones(6)}
  slopes = {"kernel": jnp.asarray(slope), "scale": jnp.zeros(6)}
  change, _ = optimizer.update(slopes, optimizer.init(params), params)
  moved = -(np.asarray(change["kernel"]) / 0.1 + 0.5) / size
  found = np.linalg.svd(moved, compute_uv=False)
  np.testing.assert_allclose(found, 1.0, atol=0.35)  # as far as five steps go
  assert (left.T @ moved @ right.T).diagonal().min() > 0.6
  np.testing.assert_array_equal(change["scale"], jnp.zeros(6))  # no decay


@pytest.mark.parametrize(
  "options, fault",
  [
    ({"method": "sgd"}, "method must be adamw or muon"),
    ({"decay": "line"}, "decay must be"),
    ({"last_share": 2.0}, "last_share"),
    ({"learning_rate": 0.0}, "above 0"),
    ({"clip": 0.0}, "above 0"),
    ({"weight_decay": -1.0}, "0 or more"),
  ],
)
def test_bad_settings_are_refused(options, fault):
  with pytest.raises(ValueError, match=fault):
    Optimizer(**options)


def test_a_warm_up_must_end():
  with pytest.raises(ValueError, match=r"warmup_steps \(4\) must be below"):
    Optimizer(warmup_steps=4).schedule(4)
