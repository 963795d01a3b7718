"""Products with one copy of the weights, in the form each platform runs best.

On XLA:CPU a dot whose *right* side is the weights packs them again in every
call, at 2 to about 40 rows for more than the product itself costs. With the
weights on the left only the rows are packed. The compiler would swap the sides
back, since a transposed result is the other product; the barrier keeps them.
One row is a matrix-vector product, which reads the weights in place.
"""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

MAX_SWAPPED_ROWS = 40


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
  if 1 < rows.shape[0] <= MAX_SWAPPED_ROWS:
    out = lax.platform_dependent(rows, kernel, cpu=_swapped_dot, default=_dot)
  else:
    out = _dot(rows, kernel)
  out = out.astype(dtype or x.dtype)
  return out.reshape(*x.shape[:-1], kernel.shape[0])


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
