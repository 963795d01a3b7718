"""EAGLE's draft: one decoder layer over the target's own features.

EAGLE-1: Li et al. 2024 (arXiv 2401.15077, section 4.1); EAGLE-3: Li et al. 2025
(arXiv 2503.01840, section 3); the norms of EAGLE-3.1: arXiv 2605.09992.

A pair (f_i, t_i+1) is fed at position i: the target's features at token i, and
the token that followed. Its output predicts token i + 2, and takes the place of
f_i+1 when the drafted token is fed in turn.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Float, Int, Key, PyTree

from specjax.models import attention, decoder
from specjax.models import cache as caches
from specjax.models.eagle_config import EagleConfig
from specjax.models.layers import MLP, Attention, Linear
from specjax.models.linear import linear
from specjax.models.norms import RMSNorm
from specjax.models.rope import rotation
from specjax.types import Cache, Fresh, Slots


@struct.dataclass
class EagleParams:
  """`Params.draft`: trained weights, and what they share with the target.

  `head` are the target's rows of the draft vocabulary, where they are shared.
  `token_ids[j]` is the target's id of draft id j; None is one vocabulary.
  """

  net: PyTree
  embedding: Float[Array, "V d"]
  head: Float[Array, "Vq d"] | None = None
  token_ids: Int[Array, "Vq"] | None = None


class EagleLayer(nn.Module):
  """The layer; version 1 has no norm at its input, version 3 has two."""

  config: EagleConfig
  attend: Callable[..., Array]

  @nn.compact
  def __call__(self, embedded, stream, *context):
    c = self.config.layer
    inputs = stream
    if self.config.version == 3:
      by_token = RMSNorm(c.rms_norm_eps, name="input_norm")(embedded)
      by_feature = RMSNorm(c.rms_norm_eps, name="hidden_norm")(stream)
      inputs = jnp.concatenate([by_token, by_feature], -1)
    layer = Attention(c, self.attend, name="attention")
    out, own = layer(inputs, *context)
    stream = stream + out
    norm = RMSNorm(c.rms_norm_eps, name="post_norm")
    return stream + MLP(c, name="mlp")(norm(stream)), own


class EagleNet(nn.Module):
  """What is trained; names follow the published layout of each version."""

  config: EagleConfig
  attend: Callable[..., Array]

  def setup(self):
    c, layer = self.config, self.config.layer
    if c.version == 1:
      self.fc = Linear(layer.hidden_size, use_bias=True)
      self.layers_0 = EagleLayer(c, self.attend)
      return
    self.fc = Linear(layer.hidden_size)
    if c.fc_norm:
      self.fc_norm = [RMSNorm(layer.rms_norm_eps) for _ in c.taps]
    self.midlayer = EagleLayer(c, self.attend)
    self.norm = RMSNorm(layer.rms_norm_eps)
    if c.own_head:
      self.head = Linear(c.draft_vocab_size or layer.vocab_size)

  def fuse(self, features):
    """The target's features as one hidden state."""
    if self.config.version == 1:
      return features[0]
    if self.config.fc_norm:
      pairs = zip(self.fc_norm, features, strict=True)
      features = [norm(x) for norm, x in pairs]
    return self.fc(jnp.concatenate(features, -1))

  def feed(self, embedded, hidden, *context):
    """Hidden states of the pairs, and their keys and values."""
    if self.config.version == 1:
      stream = self.fc(jnp.concatenate([embedded, hidden], -1))
      return self.layers_0(embedded, stream, *context)
    hidden, own = self.midlayer(embedded, hidden, *context)
    return self.norm(hidden) if self.config.norm_output else hidden, own

  def read(self, hidden):
    """Logits by its own head; else what the target's rows read."""
    if self.config.version == 1:
      return hidden
    hidden = hidden if self.config.norm_output else self.norm(hidden)
    return self.head(hidden, jnp.float32) if self.config.own_head else hidden

  def everything(self, features, embedded, *context):
    hidden, _ = self.feed(embedded, self.fuse(features), *context)
    return self.read(hidden)


@dataclasses.dataclass(frozen=True)
class EagleHead:
  """The draft as pure functions of its weights.

  Attributes:
    config: sizes and switches.
    attend: of one layer; training replaces it, see `training/eagle.py`.
  """

  config: EagleConfig
  attend: Callable[..., Array] = attention.attend

  def init(self, key: Key[Array, ""]) -> PyTree:
    """Random trained weights in the layer's dtype; the key is consumed."""
    # By the class, so that equal drafts share one program.
    return jax.jit(type(self)._init, static_argnums=0)(self, key)

  def init_cache(self, batch: int, capacity: int) -> Cache:
    """An empty cache of the one layer."""
    return caches.init(self.config.layer, batch, capacity)

  def fuse(
    self, params: EagleParams, taps: dict[str, Array]
  ) -> Float[Array, "B W d"]:
    """Hidden states that the target's features stand for."""
    dtype = _dtype(params)
    features = [taps[name].astype(dtype) for name in self.config.taps]
    return self._apply(params, features, method=EagleNet.fuse)

  def feed(
    self,
    params: EagleParams,
    slots: Slots,
    hidden: Float[Array, "B W d"],
    cache: Cache,
    scratch: Fresh | None = None,
  ) -> tuple[Float[Array, "B W d"], Fresh]:
    """Feeds pairs of a hidden state and the token after it.

    Args:
      params: the weights.
      slots: those tokens, the positions of the hidden states (one less than
        the tokens' own, as published code counts), and the mask.
      hidden: of `fuse`, or of an earlier `feed`.
      cache: keys and values of the committed pairs.
      scratch: of earlier pairs of this round.

    Returns:
      (hidden states, keys and values of the slots).
    """
    known = jnp.clip(slots.tokens, 0, params.embedding.shape[0] - 1)
    embedded = jnp.take(params.embedding, known, axis=0)
    context = (
      rotation(self.config.layer, slots.positions),
      cache.layers[0],
      cache.length,
      None if scratch is None else scratch.kv[0],
      slots.mask,
    )
    inputs = (embedded.astype(_dtype(params)), hidden, *context)
    hidden, own = self._apply(params, *inputs, method=EagleNet.feed)
    return hidden, Fresh((own,))

  def logits(
    self, params: EagleParams, hidden: Float[Array, "B W d"]
  ) -> Float[Array, "B W Vq"]:
    """Logits over the draft vocabulary, float32."""
    read = self._apply(params, hidden, method=EagleNet.read)
    if not self.config.shares_head:
      return read
    assert params.head is not None
    return linear(read, params.head.astype(read.dtype), jnp.float32)

  def _apply(self, params: EagleParams, *inputs, method) -> Any:
    net = EagleNet(self.config, self.attend)
    return net.apply({"params": params.net}, *inputs, method=method)

  def _init(self, key):
    c = self.config.layer
    one = jnp.zeros((1, 1), jnp.int32)
    empty = self.init_cache(1, 0)
    mask = jnp.ones((1, 1, 1), bool)
    context = (rotation(c, one), empty.layers[0], empty.length, None, mask)
    x = jnp.zeros((1, 1, c.hidden_size), c.dtype)
    inputs = ([x for _ in self.config.taps], x, *context)
    net = EagleNet(self.config, attention.attend)
    return net.init(key, *inputs, method=EagleNet.everything)["params"]


def logical_axes(config: EagleConfig) -> PyTree:
  """Names of the axes of every trained weight; see `decoder.logical_axes`."""
  layer = decoder.logical_axes(config.layer)["layers_0"]
  norm, fc = {"scale": ("embed",)}, {"kernel": ("embed", None)}
  if config.version == 1:
    del layer["input_norm"]
    return {"fc": fc | {"bias": ("embed",)}, "layers_0": layer}
  axes = {
    "fc": fc,
    "midlayer": layer | {"hidden_norm": norm},
    "norm": norm,
  }
  if config.own_head:
    axes["head"] = {"kernel": ("vocab", "embed")}
  if config.fc_norm:
    axes |= {f"fc_norm_{i}": norm for i in range(len(config.taps))}
  return axes


def _dtype(params: EagleParams):
  """Of products: the trained weights' own."""
  return params.net["fc"]["kernel"].dtype
