"""Drafters trained for a target, from their folders.

A folder is as `checkpoints.drafter_files` describes, or in a layout of another
tool (`checkpoints.published`); what a drafter shares with its target is taken
from the target that is at hand.
"""

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from specjax.checkpoints import published
from specjax.checkpoints.base import CheckpointError, in_words, read_json
from specjax.checkpoints.drafter_files import CONFIG, DrafterFile, read_drafter
from specjax.checkpoints.loaded import LoadedModel
from specjax.drafters import shipped
from specjax.drafters.draft_model import DraftModel
from specjax.drafters.draft_tree import DraftTree
from specjax.drafters.eagle import Eagle
from specjax.drafters.eagle_tree import EagleTree
from specjax.drafters.heads import Heads, HeadTree
from specjax.models.config import DecoderConfig
from specjax.models.cut import Shared
from specjax.models.decoder import Transformer
from specjax.models.eagle import EagleHead, EagleParams
from specjax.models.eagle_config import EagleConfig
from specjax.models.heads import Blockwise, Medusa, vocabulary_rows
from specjax.models.reduced import Reduced
from specjax.types import Drafter

TRAINED = "drafter"  # where a training's folder has its drafter's

# What the class takes beside its settings, and `Params.draft`.
_Built = tuple[dict[str, Any], PyTree]


@dataclasses.dataclass(frozen=True, eq=False)
class TrainedDraft:
  """Weights of a trained drafter, ready for the loop.

  Attributes:
    name: the folder, as it was asked for.
    kind: a key of `KINDS`.
    params: `Params.draft`; arrays of the target are shared.
    parts: what a drafter's class is called with: its net or its settings.
  """

  name: str
  kind: str
  params: PyTree
  parts: dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class _Parts:
  """A file's contents beside the target's weights, all on the device."""

  settings: dict[str, Any]
  trained: PyTree
  target: LoadedModel
  token_ids: Int[Array, "Vq"] | None

  @property
  def vocab_size(self) -> int:
    return self.target.model.vocab_size


def is_folder(name: str | os.PathLike[str]) -> bool:
  """Whether a path is a trained drafter's, published or of a training here."""
  return _is_ours(name) or published.find_format(name) is not None


def kind_of(name: str | os.PathLike[str]) -> str:
  """What a folder holds, one of `KINDS`.

  Raises:
    CheckpointError: no trained drafter, or of a kind that is not known.
  """
  if not _is_ours(name) and (form := published.find_format(name)) is not None:
    return published.FORMATS[form]
  kind = read_json(_own_folder(name) / CONFIG).get("kind")
  return _known(kind, name)


def load(
  name: str | os.PathLike[str],
  target: LoadedModel,
  kind: type | None = None,
  **settings: Any,
) -> tuple[Drafter, TrainedDraft]:
  """A trained drafter for a target.

  Args:
    name: its folder, or a shipped drafter's name.
    target: the model it was trained for, or a fine-tune of it.
    kind: the drafter's class; None drafts a chain. DraftTree, HeadTree and
      EagleTree draft trees with the same weights.
    **settings: of that class, where they are not its defaults, such as
      num_speculative_tokens.

  Raises:
    CheckpointError: no trained drafter, one for a target of other sizes,
      weights that are not those its settings state, a published drafter with
      something that is not done here.
    ValueError: a setting out of range, a class of other weights.
  """
  draft = load_draft(name, target)
  kind = _DRAFTERS[draft.kind][0] if kind is None else kind
  if not issubclass(kind, _DRAFTERS[draft.kind]):
    fits = " and ".join(fit.__name__ for fit in _DRAFTERS[draft.kind])
    raise ValueError(f"{name} is for {fits}, not {kind.__name__}")
  return kind(**draft.parts, **settings), draft


def load_draft(
  name: str | os.PathLike[str], target: LoadedModel
) -> TrainedDraft:
  """As `load`, the weights and what a class needs beside them."""
  return build(_read(name, target), name, target)


def build(
  file: DrafterFile, name: str | os.PathLike[str], target: LoadedModel
) -> TrainedDraft:
  """As `load_draft`, from a file's contents; errors call it `name`."""
  kind = _known(file.kind, name)
  _check_target(file, name, target)
  parts = _Parts(
    settings=dict(file.settings),
    trained=jax.tree.map(
      lambda leaf: jnp.asarray(leaf, target.dtype), file.params
    ),
    target=target,
    token_ids=None if file.token_ids is None else jnp.asarray(file.token_ids),
  )
  try:
    fields, params = KINDS[kind](parts)
  except (KeyError, TypeError, ValueError) as error:
    raise CheckpointError(f"{name}: {in_words(error)}") from error
  return TrainedDraft(os.fspath(name), kind, params, fields)


def _own_folder(name: str | os.PathLike[str]) -> Path:
  """The folder itself, or the one that a training left in its own."""
  path = shipped.find(name) or Path(name).expanduser()
  inside = path / TRAINED
  return inside if (inside / CONFIG).is_file() else path


def _is_ours(name: str | os.PathLike[str]) -> bool:
  return (_own_folder(name) / CONFIG).is_file()


def _read(name: str | os.PathLike[str], target: LoadedModel) -> DrafterFile:
  if not _is_ours(name) and published.find_format(name) is not None:
    return published.read(name, target)
  return read_drafter(_own_folder(name))


def _known(kind: Any, name) -> str:
  if kind not in KINDS:
    raise CheckpointError(
      f"{name} holds a drafter of the kind {kind!r}; known are"
      f" {', '.join(KINDS)}"
    )
  return kind


def _check_target(file: DrafterFile, name, target: LoadedModel) -> None:
  if not isinstance(target.model, Transformer):
    raise CheckpointError(f"{target.name} has no features for {name} to read")
  config = target.model.config
  sizes = (config.vocab_size, config.hidden_size)
  if file.target_sizes != sizes:
    raise CheckpointError(
      f"{name} drafts for {file.target}, of {file.target_sizes[0]} tokens and"
      f" width {file.target_sizes[1]}; {target.name} has {sizes[0]} and"
      f" {sizes[1]}"
    )


def _check(found: PyTree, wanted: PyTree) -> None:
  """Raises ValueError unless shapes and names are those wanted."""

  def shapes(tree):
    return {
      jax.tree_util.keystr(key, simple=True, separator="/"): leaf.shape
      for key, leaf in jax.tree_util.tree_leaves_with_path(tree)
    }

  found, wanted = shapes(found), shapes(wanted)
  for name in sorted(set(found) | set(wanted)):
    if found.get(name) != wanted.get(name):
      raise ValueError(
        f"{name} is {found.get(name, 'missing')}, the settings say"
        f" {wanted.get(name, 'nothing')}"
      )


def _draft_model(parts: _Parts) -> _Built:
  settings = parts.settings
  config = DecoderConfig.from_json(settings["config"], parts.target.dtype)
  model = Transformer(config)
  shared = Shared(
    embedding=settings["share_embedding"],
    head=not settings["train_head"],
    layers=settings.get("share_layers", 0),
  )
  ids = parts.token_ids
  whole = shared.complete(parts.trained, parts.target.params, config, ids)
  _check(whole, model.abstract_params())
  if parts.token_ids is None:
    return {"model": model}, whole
  reduced = Reduced(model, parts.vocab_size)
  params = {"model": whole, "token_ids": parts.token_ids}
  return {"model": reduced}, params


def _heads(net_of) -> Callable[[_Parts], _Built]:
  def build(parts: _Parts) -> _Built:
    net = net_of(**parts.settings)
    rows = vocabulary_rows(parts.target.params, parts.token_ids)
    _check(parts.trained, jax.eval_shape(net.init, jax.random.key(0), rows))
    params = dict(parts.trained)
    if not net.own_heads:
      params["head"] = {"kernel": rows}
    if parts.token_ids is not None:
      params["token_ids"] = parts.token_ids
    return {"net": net, "vocab_size": parts.vocab_size}, params

  return build


def _eagle(parts: _Parts) -> _Built:
  config = EagleConfig.from_json(parts.settings, parts.target.dtype)
  _check(
    parts.trained,
    jax.eval_shape(EagleHead(config).init, jax.random.key(0)),
  )
  rows = None
  if config.shares_head:
    rows = vocabulary_rows(parts.target.params, parts.token_ids)
  params = EagleParams(
    net=parts.trained,
    embedding=parts.target.params["embed"]["embedding"],
    head=rows,
    token_ids=parts.token_ids,
  )
  return {"config": config}, params


KINDS: dict[str, Callable[[_Parts], _Built]] = {
  "draft_model": _draft_model,
  "medusa": _heads(Medusa),
  "blockwise": _heads(Blockwise),
  "eagle1": _eagle,
  "eagle3": _eagle,
}
_DRAFTERS: dict[str, tuple[type, ...]] = {
  "draft_model": (DraftModel, DraftTree),
  "medusa": (Heads, HeadTree),
  "blockwise": (Heads, HeadTree),
  "eagle1": (Eagle, EagleTree),
  "eagle3": (Eagle, EagleTree),
}
