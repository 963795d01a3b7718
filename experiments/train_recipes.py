"""What a config may train, by name, built once the target is there."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from specjax.models.decoder import Transformer
from specjax.models.eagle_config import config_for
from specjax.models.heads import Blockwise, Medusa
from specjax.training import losses
from specjax.training.draft_model import DraftTrainee
from specjax.training.draft_sizes import cut_config, fresh_config
from specjax.training.eagle import EagleTrainee
from specjax.training.heads import HeadsTrainee
from specjax.training.losses import Loss
from specjax.training.types import Trainee


@dataclasses.dataclass(frozen=True)
class Recipe:
  """A trainee before its target is known.

  Attributes:
    kind: a key of `KINDS`.
    objective: its loss.
    vocabulary: tokens that it can say, by frequency; None is all.
    options: (name, value) pairs of the kind's other settings.
  """

  kind: str
  objective: Loss
  vocabulary: int | None
  options: tuple[tuple[str, Any], ...]

  def build(self, target: Transformer) -> Trainee:
    """The trainee for a target.

    Raises:
      ValueError: what does not fit the target.
    """
    options = dict(self.options)
    size = target.vocab_size if self.vocabulary is None else self.vocabulary
    if size > target.vocab_size:
      raise ValueError(
        f"a vocabulary of {size} tokens does not fit the target's"
        f" {target.vocab_size}"
      )
    return KINDS[self.kind].build(target, self, options)

  def describe(self, trainee: Trainee) -> dict[str, Any]:
    """Sizes and switches of the net, for the drafter's file."""
    return KINDS[self.kind].describe(trainee)


@dataclasses.dataclass(frozen=True)
class Kind:
  """An entry of `KINDS`.

  Attributes:
    build: (target, recipe, options) -> the trainee.
    describe: (the trainee) -> what its file states, JSON values.
    options: names that a config may give.
    separate: whether it is a model of its own, whose alpha is worth measuring.
  """

  build: Callable[[Transformer, Recipe, dict[str, Any]], Any]
  describe: Callable[[Any], dict[str, Any]]
  options: frozenset[str]
  separate: bool = False


def read(section: Mapping[str, Any]) -> Recipe:
  """The `trainee` section of a config.

  Raises:
    ValueError: an unknown kind, loss or option.
  """
  given: dict[str, Any] = {
    key: tuple(value) if isinstance(value, list) else value
    for key, value in section.items()
  }
  kind = given.pop("kind", None)
  if kind not in KINDS:
    raise ValueError(
      f"trainee has the unknown kind {kind!r}; known: {', '.join(KINDS)}"
    )
  loss = given.pop("loss", "forward_kl")
  objective = losses.parse(loss, given.pop("loss_temperature", 1.0))
  vocabulary = given.pop("vocabulary", None)
  if vocabulary is not None and vocabulary < 1:
    raise ValueError(f"vocabulary must be at least 1, got {vocabulary}")
  if unknown := sorted(set(given) - KINDS[kind].options):
    raise ValueError(
      f"{kind} has no option {unknown[0]!r}; it has"
      f" {', '.join(sorted(KINDS[kind].options))}"
    )
  present = {key: value for key, value in given.items() if value is not None}
  return Recipe(kind, objective, vocabulary, tuple(sorted(present.items())))


def _draft_model(target: Transformer, recipe: Recipe, options: dict[str, Any]):
  layers = options.pop("layers", None)
  number = options.pop("num_layers", None)
  width = options.pop("hidden_size", None)
  if (layers is None) == (number is None):
    raise ValueError("a draft model needs layers to copy, or num_layers")
  if layers is not None and width is not None:
    raise ValueError("hidden_size goes with num_layers: a cut has the target's")
  if width is None or width == target.config.hidden_size:
    size = number if layers is None else len(layers)
    config = cut_config(target.config, size, recipe.vocabulary)
  else:
    config = fresh_config(
      target.config,
      num_layers=number,
      hidden_size=width,
      head_size=recipe.vocabulary,
    )
  return DraftTrainee(
    config, target.config, recipe.objective, layers, **options
  )


def _describe_draft(trainee: DraftTrainee) -> dict[str, Any]:
  return {
    "config": dataclasses.asdict(trainee.model.config),
    "share_embedding": trainee.share_embedding,
    "train_head": trainee.train_head,
    "share_layers": trainee.share_layers,
  }


def _heads(net: type) -> Callable[..., HeadsTrainee]:
  def build(target: Transformer, recipe: Recipe, options: dict[str, Any]):
    trained = ("decay", "one_head")
    own = {name: options.pop(name) for name in trained if name in options}
    size, whole = recipe.vocabulary, target.vocab_size
    heads = net(
      hidden_size=target.config.hidden_size,
      vocab_size=whole if size is None else size,
      **options,
    )
    reduced = None if size is None else whole
    return HeadsTrainee(heads, recipe.objective, vocab_size=reduced, **own)

  return build


def _describe_heads(trainee: HeadsTrainee) -> dict[str, Any]:
  return dataclasses.asdict(trainee.net)  # pyrefly: ignore


def _eagle(version: int) -> Callable[..., EagleTrainee]:
  def build(target: Transformer, recipe: Recipe, options: dict[str, Any]):
    trained = ("depth", "decay", "noise", "token_weight", "remat")
    own = {name: options.pop(name) for name in trained if name in options}
    config = config_for(
      target.config,
      version=version,
      draft_vocab_size=recipe.vocabulary,
      **options,
    )
    return EagleTrainee(config, objective=recipe.objective, **own)

  return build


def _describe_eagle(trainee: EagleTrainee) -> dict[str, Any]:
  return dataclasses.asdict(trainee.config)


_MEDUSA = {"num_heads", "num_layers", "own_heads", "decay", "one_head"}
_BLOCKWISE = {"num_heads", "inner_size", "decay", "one_head"}
_EAGLE_3 = {
  "taps",
  "norm_output",
  "fc_norm",
  "own_head",
  "depth",
  "decay",
  "remat",
}
_EAGLE_1 = {"taps", "depth", "noise", "token_weight", "remat"}
_DRAFT = {
  "layers",
  "num_layers",
  "hidden_size",
  "share_embedding",
  "train_head",
  "share_layers",
  "feature_weight",
  "chunk",
}

KINDS: dict[str, Kind] = {
  "draft_model": Kind(
    _draft_model, _describe_draft, frozenset(_DRAFT), separate=True
  ),
  "medusa": Kind(_heads(Medusa), _describe_heads, frozenset(_MEDUSA)),
  "blockwise": Kind(_heads(Blockwise), _describe_heads, frozenset(_BLOCKWISE)),
  "eagle1": Kind(_eagle(1), _describe_eagle, frozenset(_EAGLE_1)),
  "eagle3": Kind(_eagle(3), _describe_eagle, frozenset(_EAGLE_3)),
}
