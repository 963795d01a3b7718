"""One floating type for the arguments of a formula."""

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Real


def as_floats(*values: Real[ArrayLike, "..."]) -> tuple[Array, ...]:
  """The values as arrays of the one floating type that they promote to.

  Plain numbers do not widen an array, and whole numbers become floats.
  """
  dtype = jnp.result_type(*values, float)
  return tuple(jnp.asarray(value, dtype) for value in values)


def last_axis(values: Float[Array, "*s"]) -> Array:
  """The values with a last axis of 1; a single number stays one."""
  return values[..., None] if values.ndim else values


def append_axis(
  values: Float[Array, "*s"], steps: Float[Array, "G"]
) -> tuple[Float[Array, "*s 1"], Float[Array, "*o G"]]:
  """The values with a last axis of 1, and the steps at the same rank."""
  return values[..., None], steps.reshape((1,) * values.ndim + (-1,))


def powers(
  values: Float[Array, "*s"], count: int
) -> Float[Array, "*s {count}"]:
  """The values to the 0, 1, ... count - 1, with slopes that are right at 0."""
  ones = jnp.ones_like(values)[..., None]
  values = jnp.broadcast_to(values[..., None], (*values.shape, count - 1))
  return jnp.cumprod(jnp.concatenate([ones, values], -1), -1)
