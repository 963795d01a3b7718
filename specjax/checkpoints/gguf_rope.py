"""Rotary settings as GGUF files keep them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from gguf.constants import GGMLQuantizationType
from jaxtyping import Float

from specjax.checkpoints.gguf_header import GgufTensor
from specjax.models.config import RopeScaling

FACTORS = "rope_freqs.weight"


def check_plain(metadata: Mapping[str, Any], arch: str, head_dim: int) -> None:
  """Raises ValueError for a scaling or partial rotation in the metadata."""
  scaling = metadata.get(f"{arch}.rope.scaling.type", "none")
  if scaling != "none":
    raise ValueError(
      f"rope scaling {scaling!r} is not supported, only none and llama3"
    )
  linear = metadata.get(f"{arch}.rope.scale_linear", 1.0)
  if linear not in (0.0, 1.0):
    raise ValueError(f"linear rope scaling ({linear}) is not supported")
  rotated = metadata.get(f"{arch}.rope.dimension_count", head_dim)
  if rotated != head_dim:
    raise ValueError(
      f"rope over {rotated} of {head_dim} dimensions is not supported"
    )


def llama3_factors(
  scaling: RopeScaling, head_dim: int, theta: float
) -> Float[np.ndarray, "half"]:
  """What llama3 scaling divides each rotary frequency by."""
  freqs = theta ** (-np.arange(0, head_dim, 2) / head_dim)
  turns = scaling.original_max_positions * freqs / (2 * np.pi)
  low, high = scaling.low_freq_factor, scaling.high_freq_factor
  smooth = np.clip((turns - low) / (high - low), 0, 1)
  return 1 / ((1 - smooth) / scaling.factor + smooth)


def recover_llama3(
  freqs: GgufTensor, head_dim: int, theta: float
) -> RopeScaling | None:
  """llama3 scaling from the factors that its GGUF file stores.

  Between the two cut-offs 1 / factor is linear in the frequency; of the four
  constants three are then known, and low_freq_factor is 1 by convention.
  """
  if freqs.type != GGMLQuantizationType.F32 or freqs.shape != (head_dim // 2,):
    raise ValueError(f"{FACTORS} is not {head_dim // 2} float32 factors")
  factors = freqs.data.view("<f4").astype(np.float64)
  if np.array_equal(factors, np.ones_like(factors)):
    return None
  largest = factors.max()
  # A float32 ramp: values at its ends may be off by rounding.
  ramp = (factors > 1 + 1e-5) & (factors < largest * (1 - 1e-5))
  guess = RopeScaling(factor=float(largest))
  if ramp.sum() > 1 and np.all(np.isfinite(factors)):
    smooth = (1 / factors[ramp] - 1 / largest) / (1 - 1 / largest)
    base = theta ** (-np.arange(0, head_dim, 2)[ramp] / head_dim) / (2 * np.pi)
    slope, offset = np.polyfit(base, smooth, 1)
    if offset < 0:
      guess = RopeScaling(
        factor=float(largest),
        low_freq_factor=1.0,
        high_freq_factor=round(1 - 1 / offset, 4),
        original_max_positions=round(-slope / offset),
      )
  if not np.allclose(
    llama3_factors(guess, head_dim, theta), factors, rtol=1e-4, atol=0
  ):
    raise ValueError(f"{FACTORS} does not hold llama3 factors")
  return guess
