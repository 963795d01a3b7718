"""Products with one copy of the weights, in the form each platform runs best.

On XLA:CPU a dot of 2 to about 40 rows goes through a packed GEMM that copies
the weights; a multiply-reduce fusion reads them once, vectorised over rows.
It wants an even number of rows, hence the padding. Elsewhere a dot is right.
"""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

MAX_REDUCE_ROWS = 40


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
  if 1 < rows.shape[0] <= MAX_REDUCE_ROWS:
    out = lax.platform_dependent(rows, kernel, cpu=_reduce, default=_dot)
  else:
    out = _dot(rows, kernel)
  out = out.astype(dtype or x.dtype)
  return out.reshape(*x.shape[:-1], kernel.shape[0])


def _dot(x, kernel):
  contract = (((1,), (1,)), ((), ()))
  return lax.dot_general(
    x, kernel, contract, preferred_element_type=jnp.float32
  )


def _reduce(x, kernel):
  rows = x.shape[0]
  multiple = 2 if rows <= 4 else 8
  x = jnp.pad(x, ((0, -rows % multiple), (0, 0))).astype(jnp.float32)
  products = kernel.astype(jnp.float32)[None] * x[:, None]
  return jnp.sum(products, axis=-1)[:rows]
