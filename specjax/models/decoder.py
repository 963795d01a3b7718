"""A decoder as a pure function of its weights; the `Model` of types.py."""

import dataclasses
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key, PyTree

from specjax.models import cache as caches
from specjax.models.config import DecoderConfig
from specjax.models.layers import Layer, Linear
from specjax.models.linear import linear
from specjax.models.norms import RMSNorm
from specjax.models.rope import rotation
from specjax.types import Cache, Fresh, Pass, Slots

# Layers of one shape are traced once, not once each.
_SharedLayer = nn.jit(Layer)


class Decoder(nn.Module):
  """The stack, layers unrolled; see `Transformer` for the arguments."""

  config: DecoderConfig

  @nn.compact
  def __call__(self, slots, cache, scratch, readout, taps) -> Pass:
    c = self.config
    embed = nn.Embed(
      c.vocab_size,
      c.hidden_size,
      dtype=c.dtype,
      param_dtype=c.dtype,
      embedding_init=nn.initializers.normal(c.hidden_size**-0.5),
      name="embed",
    )
    x = embed(jnp.clip(slots.tokens, 0, c.vocab_size - 1))
    turns = rotation(c, slots.positions)
    fresh, features = [], {}
    for i in range(c.num_layers):
      columns = None if scratch is None else scratch.kv[i]
      inputs = (turns, cache.layers[i], cache.length, columns, slots.mask)
      x, own = _SharedLayer(c, name=f"layers_{i}")(x, *inputs)
      fresh.append(own)
      features[f"layer_{i}"] = x
    x = features["hidden"] = RMSNorm(c.rms_norm_eps, name="norm")(x)
    if readout is not None:
      index = jnp.broadcast_to(readout, (x.shape[0], readout.shape[1]))
      x = jnp.take_along_axis(x, index[..., None], axis=1)
    if c.own_head:
      logits = Linear(c.num_outputs, name="head")(x, jnp.float32)
    else:
      logits = linear(x, embed.embedding, jnp.float32)
    return Pass(
      logits=logits,
      fresh=Fresh(kv=tuple(fresh)),
      taps={name: features[name] for name in taps},
    )


@dataclasses.dataclass(frozen=True)
class Transformer:
  """A decoder of the Llama, Qwen2 and Qwen3 families.

  Taps are "hidden", the final norm's output (what the head reads), and
  "layer_i", the residual stream after layer i; each [B W d].
  """

  config: DecoderConfig

  @property
  def vocab_size(self) -> int:
    return self.config.vocab_size

  @property
  def max_positions(self) -> int:
    return self.config.max_positions

  @property
  def tap_names(self) -> tuple[str, ...]:
    layers = range(self.config.num_layers)
    return ("hidden", *(f"layer_{i}" for i in layers))

  def init_cache(self, batch: int, capacity: int) -> Cache:
    return caches.init(self.config, batch, capacity)

  def init(self, key: Key[Array, ""]) -> PyTree:
    """Random weights in config.dtype; the key is consumed."""
    # By the class, so that equal models share one program.
    return jax.jit(type(self)._init, static_argnums=0)(self, key)

  def abstract_params(self) -> PyTree:
    """Shapes and dtypes of the weights, nothing allocated."""
    return jax.eval_shape(self._init, jax.random.key(0))

  def __call__(
    self,
    params: PyTree,
    slots: Slots,
    cache: Cache,
    *,
    scratch: Fresh | None = None,
    readout: Int[Array, "#B H"] | None = None,
    taps: tuple[str, ...] = (),
  ) -> Pass:
    """See `Model.__call__`. Raises ValueError for an unknown tap."""
    unknown = sorted(set(taps) - set(self.tap_names))
    if unknown:
      raise ValueError(
        f"no tap {unknown[0]!r}: this model has hidden and"
        f" layer_0 to layer_{self.config.num_layers - 1}"
      )
    module = Decoder(self.config)
    inputs = (slots, cache, scratch, readout, taps)
    out: Any = module.apply({"params": params}, *inputs)
    return out

  def _init(self, key):
    one = jnp.zeros((1, 1), jnp.int32)
    slots = Slots(tokens=one, positions=one, mask=jnp.ones((1, 1, 1), bool))
    inputs = (slots, self.init_cache(1, 0), None, None, ())
    return Decoder(self.config).init(key, *inputs)["params"]


def first_layers(
  model: Transformer, params: PyTree, n: int
) -> tuple[Transformer, PyTree]:
  """A draft of the target's first n layers, with its final norm and head.

  The arrays are shared, not copied. Raises ValueError unless
  1 <= n <= num_layers.
  """
  config = model.config
  if not 1 <= n <= config.num_layers:
    raise ValueError(
      f"a draft of {n} layers cannot be cut from {config.num_layers} layers;"
      f" choose 1 to {config.num_layers}"
    )
  dropped = {f"layers_{i}" for i in range(n, config.num_layers)}
  kept = {name: tree for name, tree in params.items() if name not in dropped}
  return Transformer(dataclasses.replace(config, num_layers=n)), kept


def logical_axes(config: DecoderConfig) -> PyTree:
  """Names of the axes of every weight, as a tree parallel to the weights.

  "heads" and "kv_heads" are flattened with head_dim: shard them only over
  mesh axes that divide the number of (key/value) heads.
  """

  def kernel(out, into, bias=False):
    tree = {"kernel": (out, into)}
    return tree | {"bias": (out,)} if bias else tree

  norm, head_norm = {"scale": ("embed",)}, {"scale": (None,)}
  attention: dict[str, Any] = {
    "q": kernel("heads", "embed", config.qkv_bias),
    "k": kernel("kv_heads", "embed", config.qkv_bias),
    "v": kernel("kv_heads", "embed", config.qkv_bias),
    "o": kernel("embed", "heads"),
  }
  if config.qk_norm:
    attention |= {"q_norm": head_norm, "k_norm": head_norm}
  mlp = {
    "gate": kernel("mlp", "embed"),
    "up": kernel("mlp", "embed"),
    "down": kernel("embed", "mlp"),
  }
  layer = {
    "input_norm": norm,
    "attention": attention,
    "post_norm": norm,
    "mlp": mlp,
  }
  axes: dict[str, Any] = {
    f"layers_{i}": layer for i in range(config.num_layers)
  }
  axes |= {"embed": {"embedding": ("vocab", "embed")}, "norm": norm}
  if config.own_head:
    axes["head"] = kernel("vocab", "embed")
  return axes
