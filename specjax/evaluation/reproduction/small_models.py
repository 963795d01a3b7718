"""A small target with its drafts: two counts, and a smaller model."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from specjax.drafters import DraftModel
from specjax.evaluation.reproduction import (
  corpus,
  count_drafts,
  small_training,
)
from specjax.evaluation.reproduction.cells import Settings
from specjax.evaluation.reproduction.small_training import Recipe
from specjax.types import Drafter, Model

GAMMA = 3  # tokens a draft, as in the paper's bigram example


@dataclasses.dataclass(frozen=True)
class Sizes:
  """How large the models are and how much they read and write.

  Attributes:
    vocab_size: pieces that the text is cut into.
    target, draft: layers and width.
    recipe, draft_recipe: their training.
    prompts: of `prompt` tokens each, from the held-out text.
    new_tokens: tokens that continue each.
  """

  vocab_size: int = 512
  target: tuple[int, int] = (4, 128)
  draft: tuple[int, int] = (2, 64)
  recipe: Recipe = Recipe(1000, windows=8, rate=4e-3)
  draft_recipe: Recipe = Recipe(1600, windows=8, rate=5e-3)
  prompts: int = 128
  prompt: int = 48
  new_tokens: int = 80


FULL = Sizes()
QUICK = Sizes(
  vocab_size=256,  # bytes, which need less training
  target=(2, 128),
  draft=(2, 32),
  recipe=Recipe(200, windows=8, rate=5e-3),
  draft_recipe=Recipe(400, windows=8, rate=1e-2),
  prompts=32,
)


class Draft(NamedTuple):
  """A drafter, its weights, and its logits after every token of texts."""

  drafter: Drafter
  weights: PyTree
  logits: Callable[[Int[Array, "B T"]], Float[Array, "B T V"]]
  cost: float  # operations of a token over the target's


class Trained(NamedTuple):
  """What all cells are made of."""

  sizes: Sizes
  text: corpus.Corpus
  target: Model
  params: PyTree
  drafts: dict[str, Draft]
  losses: dict[str, Float[np.ndarray, "steps"]]  # nats a token, by model
  held_out: dict[str, float]  # bits a token, by model


def train(settings: Settings, sizes: Sizes) -> Trained:
  """Trains target and draft, and counts the rest, on nine tenths of a text.

  Raises:
    ValueError: the text cannot be read or is too short.
  """
  text = corpus.load(settings.text_file, sizes.vocab_size)
  unseen = jnp.asarray(pieces(text, sizes))
  keys = jax.random.split(jax.random.key(settings.seed))
  models, weights, losses, held_out = [], [], {}, {}
  for name, (layers, width), recipe, key in zip(
    ("target", "draft"),
    (sizes.target, sizes.draft),
    (sizes.recipe, sizes.draft_recipe),
    keys,
    strict=True,
  ):
    label = f"{name}, {layers} layers of {width}"
    model = small_training.small_decoder(
      layers, width, text.vocab_size, sizes.prompt + sizes.new_tokens
    )
    say = functools.partial(_say_of, settings, label)
    params, loss = small_training.train(model, text.training, recipe, key, say)
    nats = small_training.loss(model, params, unseen)
    losses[label], held_out[label] = loss, float(nats) / math.log(2)
    models.append(model)
    weights.append(params)
  target, draft = weights
  drafts = {
    name: Draft(count_drafts.CountDraft(GAMMA), table, table.__getitem__, 0.0)
    for name, table in (
      ("unigram", count_drafts.unigram(text.training, text.vocab_size)),
      ("bigram", count_drafts.bigram(text.training, text.vocab_size)),
    )
  }
  drafts["two layers"] = Draft(
    DraftModel(models[1], GAMMA),
    draft,
    functools.partial(small_training.logits, models[1], draft),
    _size(draft) / _size(target),
  )
  return Trained(sizes, text, models[0], target, drafts, losses, held_out)


def _size(params: PyTree) -> int:
  return sum(leaf.size for leaf in jax.tree.leaves(params))


def _say_of(settings: Settings, what: str, line: str) -> None:
  settings.say(f"training the {what}: {line}")


def pieces(text: corpus.Corpus, sizes: Sizes) -> Int[np.ndarray, "B T"]:
  """Stretches of the held-out text, spread evenly over it."""
  size = sizes.prompt + sizes.new_tokens
  last = len(text.held_out) - size
  if last < 0:
    raise ValueError(
      f"a tenth of the text has {len(text.held_out)} tokens and alpha is"
      f" measured on stretches of {size}: give a longer text"
    )
  starts = np.linspace(0, last, sizes.prompts).astype(int)
  return text.held_out[starts[:, None] + np.arange(size)]
