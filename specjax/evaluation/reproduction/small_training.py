"""A small decoder trained on a text: what a reproduction needs and no more."""

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, Key, PyTree

from specjax import passes
from specjax.models.config import DecoderConfig
from specjax.models.decoder import Transformer
from specjax.types import Model, Slots

_STEPS_A_DISPATCH = 50


@dataclasses.dataclass(frozen=True)
class Recipe:
  """How a model is trained: AdamW, a linear rise, then a cosine to zero.

  Attributes:
    steps: updates.
    windows: stretches of text an update, drawn anywhere in it.
    context: tokens of a stretch that the model reads; each predicts the next.
    rate: largest learning rate.
    rise: share of the steps before it.
  """

  steps: int
  windows: int = 16
  context: int = 128
  rate: float = 3e-3
  rise: float = 0.05

  def optimizer(self) -> optax.GradientTransformation:
    rate = optax.warmup_cosine_decay_schedule(
      0.0, self.rate, max(1, round(self.rise * self.steps)), self.steps
    )
    adam = optax.adamw(rate, b1=0.9, b2=0.98, weight_decay=0.1)
    return optax.chain(optax.clip_by_global_norm(1.0), adam)


def small_decoder(
  num_layers: int, hidden_size: int, vocab_size: int, max_positions: int
) -> Transformer:
  """A decoder with heads of 32, and gated units as large as 4 times plain."""
  return Transformer(
    DecoderConfig(
      vocab_size=vocab_size,
      hidden_size=hidden_size,
      intermediate_size=hidden_size * 8 // 3,
      num_layers=num_layers,
      num_heads=hidden_size // 32,
      num_kv_heads=hidden_size // 32,
      head_dim=32,
      max_positions=max_positions,
    )
  )


@functools.partial(jax.jit, static_argnums=0)
def logits(
  model: Model, params: PyTree, texts: Int[Array, "B T"]
) -> Float[Array, "B T V"]:
  """Logits after every token of the texts, in one pass."""
  places = jnp.arange(texts.shape[1], dtype=jnp.int32)[None]
  positions = jnp.broadcast_to(places, texts.shape)
  slots = Slots(texts, positions, passes.causal(positions))
  return model(params, slots, model.init_cache(texts.shape[0], 0)).logits


def loss(
  model: Model, params: PyTree, windows: Int[Array, "B T"]
) -> Float[Array, ""]:
  """Mean -log p of every token but the first of each window, in nats."""
  found = optax.softmax_cross_entropy_with_integer_labels(
    logits(model, params, windows[:, :-1]), windows[:, 1:]
  )
  return found.mean()


def cut(
  text: Int[Array, "N"], starts: Int[Array, "B"], size: int
) -> Int[Array, "B {size}"]:
  """Windows of a text from the given places, whole inside it."""
  index = starts[:, None] + jnp.arange(size)[None]
  return text[index]


def train(
  model: Transformer,
  text: Int[np.ndarray, "N"],
  recipe: Recipe,
  key: Key[Array, ""],
  say: Callable[[str], None] = lambda line: None,
) -> tuple[PyTree, Float[np.ndarray, "steps"]]:
  """(the weights, the loss at every step in nats a token).

  One scan on the device for every 50 steps.

  Raises:
    ValueError: the text is no longer than a window.
  """
  if len(text) <= recipe.context + 1:
    raise ValueError(
      f"the text has {len(text)} tokens and a window {recipe.context + 1}"
    )
  first, draws = jax.random.split(key)
  params = model.init(first)
  state = recipe.optimizer().init(params)
  on_device, losses = jnp.asarray(text, jnp.int32), []
  for start in range(0, recipe.steps, _STEPS_A_DISPATCH):
    count = min(_STEPS_A_DISPATCH, recipe.steps - start)
    keys = jax.vmap(functools.partial(jax.random.fold_in, draws))(
      jnp.arange(start, start + count)
    )
    params, state, found = _steps(model, recipe, params, state, on_device, keys)
    losses.append(np.asarray(found))
    bits = losses[-1].mean() / np.log(2)
    say(f"step {start + count} of {recipe.steps}: {bits:.2f} bits a token")
  return params, np.concatenate(losses)


@functools.partial(jax.jit, static_argnums=(0, 1), donate_argnums=(2, 3))
def _steps(model, recipe: Recipe, params, state, text, keys):
  optimizer, size = recipe.optimizer(), recipe.context + 1

  def step(carry, key):
    params, state = carry
    starts = jax.random.randint(
      key, (recipe.windows,), 0, text.shape[0] - size + 1
    )
    windows = cut(text, starts, size)
    value, slope = jax.value_and_grad(functools.partial(loss, model))(
      params, windows
    )
    change, state = optimizer.update(slope, state, params)
    return (optax.apply_updates(params, change), state), value

  (params, state), values = jax.lax.scan(step, (params, state), keys)
  return params, state, values
