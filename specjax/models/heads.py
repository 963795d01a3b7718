"""Heads on a target's last feature that guess several tokens ahead.

The feature h_t of token t is what the language head reads as the law of token
t + 1. Head k, counted from 1, reads the same h_t as a law of token t + k + 1:
the tokens between are not known to it, so its law is that of the token averaged
over them. Every head begins as the language head itself.

Weights are nested dicts, a head a name:

  heads_0 heads_1 ...   what is the head's own, first of all heads_0, head 1
  inner                 what heads share (`Blockwise`)
  head                  the target's vocabulary rows, where they are shared

"head" is the target's: it is not trained, and whoever runs the heads adds it.
"""

import dataclasses
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from specjax.models.linear import linear


@runtime_checkable
class HeadsNet(Protocol):
  """Heads as a frozen, hashable value; weights are passed in.

  Attributes:
    hidden_size: d, of the feature.
    vocab_size: Vq, tokens that the heads can say.
    num_heads: K.
  """

  @property
  def hidden_size(self) -> int: ...
  @property
  def vocab_size(self) -> int: ...
  @property
  def num_heads(self) -> int: ...

  def __call__(
    self,
    params: PyTree,
    hidden: Float[Array, "*b d"],
    num_heads: int | None = None,
  ) -> Float[Array, "*b K Vq"]:
    """Logits of the first `num_heads` heads, of all where it is None."""
    ...


class _Heads:
  """What both nets do; a base for frozen dataclasses."""

  if TYPE_CHECKING:  # fields of the dataclass

    @property
    def hidden_size(self) -> int: ...
    @property
    def vocab_size(self) -> int: ...
    @property
    def num_heads(self) -> int: ...
    @property
    def own_heads(self) -> bool: ...

  def __post_init__(self):
    for field in dataclasses.fields(self):  # pyrefly: ignore
      value = getattr(self, field.name)
      if not isinstance(value, bool) and value < 1:
        name = type(self).__name__
        raise ValueError(f"{field.name} of {name} must be at least 1")

  def trunk(
    self, params: PyTree, hidden: Float[Array, "*b d"]
  ) -> Float[Array, "*b _"]:
    """What the branches of all heads read, computed once."""
    raise NotImplementedError

  def branch(
    self,
    one: PyTree,
    trunk: Float[Array, "*b _"],
    hidden: Float[Array, "*b d"],
  ) -> Float[Array, "*b d"]:
    """What stands before the vocabulary of the head with the weights `one`."""
    raise NotImplementedError

  def logits_of(
    self,
    params: PyTree,
    one: PyTree,
    trunk: Float[Array, "*b _"],
    hidden: Float[Array, "*b d"],
  ) -> Float[Array, "*b Vq"]:
    """float32 logits of one head, whose own weights are `one`."""
    x = self.branch(one, trunk, hidden)
    return _say(x, (one if self.own_heads else params)["head"]["kernel"])

  def __call__(
    self,
    params: PyTree,
    hidden: Float[Array, "*b d"],
    num_heads: int | None = None,
  ) -> Float[Array, "*b K Vq"]:
    """See `HeadsNet.__call__`; shared vocabulary rows are read once."""
    number = self.num_heads if num_heads is None else num_heads
    heads = [params[f"heads_{k}"] for k in range(number)]
    trunk = self.trunk(params, hidden)
    if self.own_heads:
      each = [self.logits_of(params, one, trunk, hidden) for one in heads]
      return jnp.stack(each, -2)
    x = [self.branch(one, trunk, hidden) for one in heads]
    return _say(jnp.stack(x, -2), params["head"]["kernel"])


@dataclasses.dataclass(frozen=True)
class Medusa(_Heads):
  """Head k is W2_k f(... f(h)), f(x) = x + SiLU(W1 x + b) in each layer.

  Cai et al. 2024 (arXiv 2401.10774), section 2.1.1; W1 and b begin at zero, W2
  as the language head.

  Attributes:
    num_layers: residual layers f of a head. (In Medusa's own code the layers of
      a head share their weights; here, as in vLLM, they do not.)
    own_heads: each head has its own W2. False: all read the target's rows,
      which are not trained (vLLM's `original_lm_head`).
  """

  hidden_size: int
  vocab_size: int
  num_heads: int = 5
  num_layers: int = 1
  own_heads: bool = True

  def init(
    self, key: Key[Array, ""], head: Float[Array, "Vq d"]
  ) -> dict[str, PyTree]:
    """Weights of the dtype of `head`, the target's rows; nothing is drawn."""
    del key
    d = self.hidden_size
    params = {}
    for k in range(self.num_heads):
      one: dict[str, PyTree] = {
        f"blocks_{i}": {
          "kernel": jnp.zeros((d, d), head.dtype),
          "bias": jnp.zeros((d,), head.dtype),
        }
        for i in range(self.num_layers)
      }
      if self.own_heads:
        one["head"] = {"kernel": head.copy()}  # the target's may be donated
      params[f"heads_{k}"] = one
    return params

  def trunk(self, params, hidden):
    return hidden

  def branch(self, one, trunk, hidden):
    x = hidden.astype(one["blocks_0"]["kernel"].dtype)
    for i in range(self.num_layers):
      x = x + jax.nn.silu(_affine(x, one[f"blocks_{i}"]))
    return x


@dataclasses.dataclass(frozen=True)
class Blockwise(_Heads):
  """Head k is W (h + O_k relu(I h + b) + c_k), W the target's vocabulary rows.

  Stern et al. 2018 (arXiv 1811.03115), section 4: one feed-forward layer of
  K * inner_size units and K outputs of width d, each added to the decoder's
  output. Their first output layer, p_1, is here the language head as it is. O_k
  and c_k begin at zero, so that every head begins as that.

  Attributes:
    inner_size: units of the hidden layer, times the number of heads.
  """

  hidden_size: int
  vocab_size: int
  inner_size: int
  num_heads: int = 5

  own_heads = False

  def init(
    self, key: Key[Array, ""], head: Float[Array, "Vq d"]
  ) -> dict[str, PyTree]:
    """Weights of the dtype of `head`, the target's rows; consumes the key."""
    d, units = self.hidden_size, self.num_heads * self.inner_size
    inner = jax.random.normal(key, (units, d), jnp.float32) * d**-0.5
    params = {
      "inner": {
        "kernel": inner.astype(head.dtype),
        "bias": jnp.zeros((units,), head.dtype),
      }
    }
    for k in range(self.num_heads):
      params[f"heads_{k}"] = {
        "kernel": jnp.zeros((d, units), head.dtype),
        "bias": jnp.zeros((d,), head.dtype),
      }
    return params

  def trunk(self, params, hidden):
    inner = params["inner"]
    return jax.nn.relu(_affine(hidden.astype(inner["kernel"].dtype), inner))

  def branch(self, one, trunk, hidden):
    return hidden.astype(trunk.dtype) + _affine(trunk, one)


def vocabulary_rows(
  target: PyTree, token_ids: Int[Array, "Vq"] | None = None
) -> Float[Array, "Vq d"]:
  """Rows of a decoder's language head, of the tokens wanted or of all.

  Args:
    target: weights of a `Transformer`, its embeddings tied or not.
    token_ids: ids of a reduced vocabulary; None gives the array itself.
  """
  if "head" in target:
    kernel = target["head"]["kernel"]
  else:
    kernel = target["embed"]["embedding"]
  return kernel if token_ids is None else jnp.take(kernel, token_ids, axis=0)


def _affine(x, layer):
  out = linear(x, layer["kernel"])
  return out + layer["bias"].reshape((1,) * (out.ndim - 1) + (-1,))


def _say(x, kernel):
  return linear(x.astype(kernel.dtype), kernel, jnp.float32)
