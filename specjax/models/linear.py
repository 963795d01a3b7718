"""Products with one copy of the weights, in the form each platform runs best.

On XLA:CPU a dot whose *right* side is the weights packs them again in every
call, at 2 to about 40 rows for more than the product itself costs. With the
weights on the left only the rows are packed. The compiler would swap the sides
back, since a transposed result is the other product; the barrier keeps them.
One row is a matrix-vector product, which reads the weights in place: cut into
blocks of outputs it is a batch of them, and the batch is what XLA spreads over
the cores.
"""

import math

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

MAX_SWAPPED_ROWS = 40
MAX_BLOCKS = 8


def linear(
  x: Float[Array, "... I"], kernel: Float[Array, "O I"], dtype=None
) -> Float[Array, "... O"]:
  """x @ kernel.T, accumulated in float32.

  Args:
    x: rows of inputs.
    kernel: weights, one row an output.
    dtype: of the result; x's own by default.
  """
  rows = x.reshape(-1, x.shape[-1])
  on_cpu = _cpu_form(rows.shape[0])
  out = lax.platform_dependent(rows, kernel, cpu=on_cpu, default=_dot)
  out = out.astype(dtype or x.dtype)
  return out.reshape(*x.shape[:-1], kernel.shape[0])


def _cpu_form(rows):
  if rows == 1:
    return _blocked_dot
  return _swapped_dot if rows <= MAX_SWAPPED_ROWS else _dot


def _dot(x, kernel):
  contract = (((1,), (1,)), ((), ()))
  return lax.dot_general(
    x, kernel, contract, preferred_element_type=jnp.float32
  )


def _swapped_dot(x, kernel):
  rows = x.shape[0]
  multiple = 1 if rows <= 4 else 8
  x = jnp.pad(x, ((0, -rows % multiple), (0, 0)))
  return lax.optimization_barrier(_dot(kernel, x)).T[:rows]


def _blocked_dot(x, kernel):
  blocks = math.gcd(kernel.shape[0], MAX_BLOCKS)
  kernel = kernel.reshape(blocks, -1, kernel.shape[1])
  x = jnp.broadcast_to(x, (blocks, *x.shape))
  contract = (((2,), (2,)), ((0,), (0,)))
  out = lax.dot_general(kernel, x, contract, preferred_element_type=jnp.float32)
  return out.reshape(1, -1)
