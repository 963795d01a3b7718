"""Root-mean-square normalisation (Zhang and Sennrich 2019), in float32."""

import flax.linen as nn
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float


class RMSNorm(nn.Module):
  """x / rms(x) * scale over the last axis; the result has x's dtype."""

  epsilon: float

  @nn.compact
  def __call__(self, x: Float[Array, "... F"]) -> Float[Array, "... F"]:
    scale = self.param("scale", nn.initializers.ones, x.shape[-1:], x.dtype)
    wide = x.astype(jnp.float32)
    power = jnp.mean(jnp.square(wide), axis=-1, keepdims=True)
    unit = (wide * lax.rsqrt(power + self.epsilon)).astype(x.dtype)
    return unit * scale.reshape((1,) * (x.ndim - 1) + scale.shape)
