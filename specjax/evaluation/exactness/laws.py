"""The exact law of the first tokens after a prompt, by the target's own passes.

Axes: M texts that can come out, L tokens each, N samples.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, PyTree

from specjax import passes
from specjax.types import Cache, Model, Slots

OUTSIDE = -1
MAX_TEXTS = 1 << 16
_BATCH = 64


@dataclasses.dataclass(frozen=True)
class JointLaw:
  """Every text of L tokens that can come out, and its probability.

  Attributes:
    texts: one a row, in lexicographic order.
    probabilities: of each, all above 0; they add up to 1.
  """

  texts: Int[np.ndarray, "M L"]
  probabilities: Float[np.ndarray, "M"]

  @property
  def length(self) -> int:
    return self.texts.shape[1]

  def locate(self, samples: Int[np.ndarray, "N L"]) -> Int[np.ndarray, "N"]:
    """The place of each sample among the texts, OUTSIDE where it has none."""
    both = np.concatenate([self.texts, samples])
    _, number = np.unique(both, axis=0, return_inverse=True)
    number = number.reshape(-1)
    place = np.full(number.max() + 1, OUTSIDE)
    place[number[: len(self.texts)]] = np.arange(len(self.texts))
    return place[number[len(self.texts) :]]

  def at(self, position: int) -> "JointLaw":
    """The law of one token, whatever the others are."""
    tokens, number = np.unique(self.texts[:, position], return_inverse=True)
    mass = np.bincount(number.reshape(-1), self.probabilities)
    return JointLaw(tokens[:, None], mass)


def enumerate_law(
  model: Model,
  params: PyTree,
  prompt: Sequence[int],
  length: int,
  law_of: Callable[[np.ndarray], np.ndarray],
) -> JointLaw:
  """Follows every text that has a chance, one token at a time.

  Args:
    model, params: the target.
    prompt: its tokens, at least one.
    length: L, tokens of a text.
    law_of: probabilities [V] that a sampling setting makes of logits [V]. It
      should share no code with what is tested.

  Raises:
    ValueError: more than MAX_TEXTS texts; say how to have fewer.
  """
  after = _Continuations(model, params, prompt, length)
  texts = np.zeros((1, 0), np.int32)
  mass = np.ones(1)
  for _ in range(length):
    heads, tails, chances = [], [], []
    size = 0
    for begin in range(0, len(texts), _BATCH):
      for row, logits in enumerate(after(texts[begin : begin + _BATCH])):
        law = law_of(logits)
        tokens = np.flatnonzero(law)
        size += len(tokens)
        if size > MAX_TEXTS:
          raise ValueError(
            f"more than {MAX_TEXTS} texts of {length} tokens can come out:"
            " lower --top_k, --top_p or --length"
          )
        heads.append(np.full(len(tokens), begin + row))
        tails.append(tokens)
        chances.append(law[tokens])
    head, tail = np.concatenate(heads), np.concatenate(tails)
    texts = np.concatenate([texts[head], tail[:, None]], 1).astype(np.int32)
    mass = mass[head] * np.concatenate(chances)
  return JointLaw(texts, mass / mass.sum())


class _Continuations:
  """Logits after a prompt and a few tokens more; the prompt is read once.

  One program serves all lengths: a text is padded behind, where the causal mask
  hides what was added.
  """

  def __init__(self, model: Model, params, prompt: Sequence[int], length: int):
    self._model, self._params = model, params
    self._length = length
    self._prompt = np.asarray(prompt, np.int32)
    self._cache = _read(model, params, jnp.asarray(self._prompt)[None])

  def __call__(self, texts: Int[np.ndarray, "m l"]) -> np.ndarray:
    number, known = texts.shape
    slots = np.zeros((_BATCH, self._length), np.int32)
    slots[:, 0] = self._prompt[-1]
    slots[:number, 1 : 1 + known] = texts
    logits = _after(
      self._model,
      self._params,
      self._cache,
      jnp.asarray(slots),
      jnp.asarray(known),
    )
    return np.asarray(logits)[:number]


@functools.partial(jax.jit, static_argnames="model")
def _read(model: Model, params, prompt) -> Cache:
  """A cache of all of a prompt [1 T] but its last token."""
  size = max(prompt.shape[1] - 1, 1)
  until = jnp.full((1,), prompt.shape[1] - 1, jnp.int32)
  cache = model.init_cache(1, size)
  return passes.read_text(model, params, prompt, cache, until, size)[0]


@functools.partial(jax.jit, static_argnames="model")
def _after(model: Model, params, cache: Cache, tokens, last):
  """Logits [b V] at slot `last` of texts [b L] that follow the cached one."""
  batch, width = tokens.shape
  cache = jax.tree.map(
    lambda x: jnp.broadcast_to(x, (batch, *x.shape[1:])), cache
  )
  positions = cache.length[:, None] + jnp.arange(width)[None]
  slots = Slots(tokens, positions, passes.causal(positions))
  readout = jnp.full((1, 1), last, jnp.int32)
  return model(params, slots, cache, readout=readout).logits[:, 0]
