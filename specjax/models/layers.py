"""Flax modules of one decoder layer; kernels are [out, in]."""

from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from specjax.models import attention
from specjax.models.config import DecoderConfig
from specjax.models.linear import linear
from specjax.models.norms import RMSNorm
from specjax.models.rope import rotate

_by_fan_in = nn.initializers.variance_scaling(
  1.0, "fan_in", "normal", in_axis=1, out_axis=0
)

# Keys and values; each number of columns is its own.
KV = tuple[Float[Array, "B K _ Dh"], Float[Array, "B K _ Dh"]]


class Linear(nn.Module):
  """A projection whose kernel is [features, inputs]."""

  features: int
  use_bias: bool = False

  @nn.compact
  def __call__(self, x: Float[Array, "... I"], dtype=None):
    shape = (self.features, x.shape[-1])
    kernel = self.param("kernel", _by_fan_in, shape, x.dtype)
    out = linear(x, kernel, dtype)
    if self.use_bias:
      bias = self.param("bias", nn.initializers.zeros, shape[:1], x.dtype)
      out = out + bias.reshape((1,) * (out.ndim - 1) + shape[:1])
    return out


class Attention(nn.Module):
  """Grouped-query attention with rotary positions (Ainslie et al. 2023).

  `attend` is what its projections are handed to.
  """

  config: DecoderConfig
  attend: Callable[..., Array] = attention.attend

  @nn.compact
  def __call__(
    self,
    x: Float[Array, "B W I"],
    rotation: tuple[Array, Array],
    cached: KV,
    length: Int[Array, "B"],
    scratch: KV | None,
    mask: Bool[Array, "#B W J"],
  ) -> tuple[Float[Array, "B W d"], KV]:
    """Returns the output and the slots' own keys and values."""
    c = self.config

    def heads(name, number):
      project = Linear(number * c.head_dim, c.qkv_bias, name=name)
      split = project(x).reshape(*x.shape[:2], number, c.head_dim)
      return split.transpose(0, 2, 1, 3)

    query, key = heads("q", c.num_heads), heads("k", c.num_kv_heads)
    value = heads("v", c.num_kv_heads)
    if c.qk_norm:
      query = RMSNorm(c.rms_norm_eps, name="q_norm")(query)
      key = RMSNorm(c.rms_norm_eps, name="k_norm")(key)
    query, key = rotate(query, *rotation), rotate(key, *rotation)
    own = fresh = (key, value)
    if scratch is not None:
      fresh = (
        jnp.concatenate([scratch[0], key], axis=2),
        jnp.concatenate([scratch[1], value], axis=2),
      )
    out = self.attend(query, cached, length, fresh, mask)
    out = out.transpose(0, 2, 1, 3).reshape(*x.shape[:2], -1)
    return Linear(c.hidden_size, name="o")(out), own


class MLP(nn.Module):
  """Gated unit (Shazeer 2020, SwiGLU)."""

  config: DecoderConfig

  @nn.compact
  def __call__(self, x: Float[Array, "B W d"]) -> Float[Array, "B W d"]:
    size = self.config.intermediate_size
    gate, up = Linear(size, name="gate")(x), Linear(size, name="up")(x)
    return Linear(self.config.hidden_size, name="down")(jax.nn.silu(gate) * up)


class Layer(nn.Module):
  """Pre-norm attention and gated unit, each added to the stream."""

  config: DecoderConfig

  @nn.compact
  def __call__(self, x: Float[Array, "B W d"], *args):
    norm = RMSNorm(self.config.rms_norm_eps, name="input_norm")
    out, own = Attention(self.config, name="attention")(norm(x), *args)
    x = x + out
    norm = RMSNorm(self.config.rms_norm_eps, name="post_norm")
    return x + MLP(self.config, name="mlp")(norm(x)), own
