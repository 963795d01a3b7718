"""Rotary positions, half-split as Hugging Face stores llama-family weights.

Dimension i of a head turns with dimension i + head_dim / 2 (Su et al. 2021,
RoFormer; the interleaved form of GGUF files is permuted away when loaded).
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from specjax.models.config import DecoderConfig, RopeScaling


def frequencies(config: DecoderConfig) -> np.ndarray:
  """Radians a position for each of head_dim / 2 pairs, float32."""
  exponent = np.arange(0, config.head_dim, 2, dtype=np.float32)
  exponent = exponent / np.float32(config.head_dim)
  inverse = 1 / np.power(np.float32(config.rope_theta), exponent)
  if config.rope_scaling is not None:
    inverse = _scale_llama3(inverse, config.rope_scaling)
  return inverse.astype(np.float32)


def rotation(
  config: DecoderConfig, positions: Int[Array, "B W"]
) -> tuple[Float[Array, "B 1 W h"], Float[Array, "B 1 W h"]]:
  """(cos, sin) of each slot, h = head_dim / 2; float32."""
  turns = frequencies(config)[None, None, None]
  angles = positions[:, None, :, None].astype(jnp.float32) * turns
  return jnp.cos(angles), jnp.sin(angles)


def rotate(
  x: Float[Array, "B N W Dh"],
  cos: Float[Array, "B 1 W h"],
  sin: Float[Array, "B 1 W h"],
) -> Float[Array, "B N W Dh"]:
  """Turns each pair of dimensions; float32 inside, x's dtype outside."""
  first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
  turned = [first * cos - second * sin, second * cos + first * sin]
  return jnp.concatenate(turned, axis=-1).astype(x.dtype)


def _scale_llama3(inverse: np.ndarray, scaling: RopeScaling) -> np.ndarray:
  """Divides low frequencies by the factor, with a linear ramp between bands.

  Llama 3.1's reference code (`apply_scaling`): wavelengths above
  original / low_freq_factor are scaled, below original / high_freq_factor
  kept.
  """
  low, high = scaling.low_freq_factor, scaling.high_freq_factor
  rotations = scaling.original_max_positions * inverse / (2 * np.pi)
  keep = np.clip((rotations - low) / (high - low), 0, 1)
  return (1 - keep) * inverse / scaling.factor + keep * inverse
