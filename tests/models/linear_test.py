"""One product, whatever the number of rows and the platform."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specjax.models.linear import linear


@pytest.mark.parametrize("shape", [(1,), (2,), (3,), (5,), (8,), (41,), (2, 7)])
def test_it_is_the_product(shape):
  key_x, key_w = jax.random.split(jax.random.key(0))
  x = jax.random.normal(key_x, (*shape, 16))
  kernel = jax.random.normal(key_w, (12, 16))
  expected = np.asarray(x, np.float64) @ np.asarray(kernel, np.float64).T
  np.testing.assert_allclose(linear(x, kernel), expected, rtol=1e-5, atol=1e-5)
  np.testing.assert_allclose(
    jax.jit(linear)(x, kernel), expected, rtol=1e-5, atol=1e-5
  )


@pytest.mark.parametrize("rows", [1, 5, 50])
def test_bfloat16_accumulates_in_float32(rows):
  x = jnp.ones((rows, 1024), jnp.bfloat16)
  kernel = jnp.full((2, 1024), 1 + 2**-7, jnp.bfloat16)
  out = linear(x, kernel, jnp.float32)
  assert out.dtype == jnp.float32
  np.testing.assert_array_equal(out, np.full((rows, 2), 1032.0))
  assert linear(x, kernel).dtype == jnp.bfloat16


def test_gradients():
  key_x, key_w = jax.random.split(jax.random.key(1))
  x = jax.random.normal(key_x, (5, 16))
  kernel = jax.random.normal(key_w, (12, 16))
  got = jax.grad(lambda *a: jnp.sum(jnp.sin(linear(*a))), (0, 1))(x, kernel)
  plain = jax.grad(lambda x, w: jnp.sum(jnp.sin(x @ w.T)), (0, 1))(x, kernel)
  for a, b in zip(got, plain, strict=True):
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_the_form_is_chosen_when_lowered():
  """Weights on the left only where the program is for a CPU."""
  x, kernel = jnp.ones((5, 16)), jnp.ones((12, 16))
  traced = jax.jit(linear).trace(x, kernel)
  here = traced.lower(lowering_platforms=("cpu",)).as_text()
  there = traced.lower(lowering_platforms=("tpu",)).as_text()
  assert "(tensor<12x16xf32>, tensor<8x16xf32>) -> tensor<12x8xf32>" in here
  assert "(tensor<5x16xf32>, tensor<12x16xf32>) -> tensor<5x12xf32>" in there
  assert "optimization_barrier" not in there
