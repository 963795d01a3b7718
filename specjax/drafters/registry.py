"""Drafters by name or import path."""

import dataclasses
import difflib
import importlib
import inspect
from typing import Any

from specjax import checkpoints
from specjax.checkpoints.loaded import LoadedModel, load_model
from specjax.drafters import building, combined, shipped, trained
from specjax.drafters.draft_model import DraftModel
from specjax.drafters.draft_tree import DraftTree
from specjax.drafters.eagle import Eagle
from specjax.drafters.eagle_tree import EagleTree
from specjax.drafters.heads import Heads, HeadTree
from specjax.drafters.jacobi import Jacobi
from specjax.drafters.lookahead import Lookahead
from specjax.drafters.ngram import NGram
from specjax.drafters.ngram_tree import NGramTree
from specjax.drafters.none import NoDraft
from specjax.drafters.settings import DrafterSettings
from specjax.drafters.trained import TrainedDraft
from specjax.models.config import DecoderConfig
from specjax.models.decoder import Transformer, first_layers
from specjax.models.resized import Resized
from specjax.text import compare_vocabularies
from specjax.types import Drafter

Draft = LoadedModel | TrainedDraft

DRAFTERS = {
  "none": NoDraft,
  "ngram": NGram,
  "ngram_tree": NGramTree,
  "jacobi": Jacobi,
  "lookahead": Lookahead,
  "model": DraftModel,
  "model_tree": DraftTree,
  "medusa": Heads,
  "medusa_tree": HeadTree,
  "blockwise": Heads,
  "blockwise_tree": HeadTree,
  "eagle": Eagle,
  "eagle3": Eagle,
  "eagle_tree": EagleTree,
}
# What a trained drafter's folder may hold, by the name that it goes with.
_TRAINED = {
  "model": ("draft_model",),
  "model_tree": ("draft_model",),
  "medusa": ("medusa",),
  "medusa_tree": ("medusa",),
  "blockwise": ("blockwise",),
  "blockwise_tree": ("blockwise",),
  "eagle": ("eagle1", "eagle3"),
  "eagle3": ("eagle3",),
  "eagle_tree": ("eagle1", "eagle3"),
}
# Stands for a draft while settings are checked and nothing is loaded.
_ANY_MODEL = Transformer(
  DecoderConfig(
    vocab_size=2,
    hidden_size=2,
    intermediate_size=2,
    num_layers=1,
    num_heads=1,
    num_kv_heads=1,
    head_dim=2,
    max_positions=2,
  )
)


def check(name: str, settings: DrafterSettings, target: str = "") -> None:
  """Refuses what can be refused before a model is loaded.

  Args:
    name: as for `resolve`.
    settings: what was asked for.
    target: the target's name, for the drafts that are shipped for it.

  Raises:
    ValueError: no such drafter, an import path that is no drafter, a setting
      that the drafter does not take or that is out of range.
  """
  if parts := _parts(name, settings):
    for part, own in parts:
      check(part, own, target)
    return
  kind, settings = find(name), completed(name, settings, target)
  given = building.values(name, kind, settings)
  if not takes_draft(name):
    for key in ("draft_model", "draft_layers"):
      if getattr(settings, key) is not None:
        raise ValueError(f"drafter {name!r} has no setting {key}")
    building.build(name, kind, given)
    return
  if _check_trained(name, settings):
    return
  if (settings.draft_model is None) == (settings.draft_layers is None):
    raise ValueError(
      f"drafter {name!r} needs either a draft model (--draft_model=NAME) or a"
      " number of the target's layers (--draft_layers=N)"
    )
  if settings.draft_model is not None:
    checkpoints.resolve(settings.draft_model)
  building.build(name, kind, given | {"model": _ANY_MODEL})


def completed(
  name: str, settings: DrafterSettings, target: str
) -> DrafterSettings:
  """The settings, with a shipped draft where the drafter is given none.

  Args:
    name: as for `resolve`.
    settings: what was asked for.
    target: the target's name.
  """
  if combined.split(name):
    return settings  # each part for itself, in `resolve`
  return shipped.completed(settings, _TRAINED.get(name, ()), target)


def takes_draft(name: str) -> bool:
  """Whether a drafter runs a draft model or trained weights.

  Raises:
    ValueError: no such drafter.
  """
  if made := combined.split(name):
    return any(takes_draft(part) for part in made[1])
  kind = find(name)
  return name in _TRAINED or "model" in inspect.signature(kind).parameters


def _parts(
  name: str, settings: DrafterSettings
) -> list[tuple[str, DrafterSettings]]:
  """(name, settings) of what a combination is made of; none of others."""
  made = combined.split(name)
  if made is None:
    return []
  own = combined.settings_of_parts(name, made[1], settings, find, takes_draft)
  return list(zip(made[1], own, strict=True))


def _check_trained(name: str, settings: DrafterSettings) -> bool:
  """Whether the draft is a trained drafter's folder, and a fitting one."""
  folder, kinds = settings.draft_model, _TRAINED.get(name, ())
  if folder is None or not trained.is_folder(folder):
    if "draft_model" in kinds or name not in _TRAINED:
      return False
    found = "" if folder is None else f", and {folder} is none"
    raise ValueError(
      f"drafter {name!r} needs the folder of a trained drafter"
      f" (--draft_model=FOLDER){found}; python -m experiments.train makes one"
    )
  if settings.draft_layers is not None:
    raise ValueError("draft_model and draft_layers are two drafts: give one")
  kind = trained.kind_of(folder)
  if kind not in kinds:
    fits = [other for other, known in _TRAINED.items() if kind in known]
    raise ValueError(
      f"{folder} holds {kind}, which goes with"
      f" {' or '.join(f'--drafter={other}' for other in fits)}, not {name!r}"
    )
  return True


def resolve(
  name: str,
  settings: DrafterSettings,
  target: LoadedModel,
  loaded: dict[Any, Draft] | None = None,
) -> tuple[Drafter, Draft | None]:
  """The drafter, and the draft model or trained weights that it runs, if any.

  Args:
    name: a key of `DRAFTERS` or "package.module:Class"; two or more with "/"
      between them for the first that has something, with "+" for all in one
      tree. A class is called with those settings that its signature names, and
      with `model` if it names that.
    settings: what was asked for.
    target: what it drafts for.
    loaded: drafts that are there already, which calls may share; it is added
      to.

  Raises:
    ValueError: as `check`; a draft whose vocabulary or layers do not fit.
  """
  loaded = {} if loaded is None else loaded
  if parts := _parts(name, settings):
    each = [resolve(part, own, target, loaded) for part, own in parts]
    drafter = find(name)(tuple(drafter for drafter, _ in each))
    weights = tuple(draft and draft.params for _, draft in each)
    if weights.count(None) == len(weights):
      return drafter, None
    names = " and ".join(draft.name for _, draft in each if draft)
    return drafter, TrainedDraft(names, name, weights)
  settings = completed(name, settings, target.name)
  check(name, settings)
  if not takes_draft(name):
    return _make(name, settings, None), None
  key = settings.draft_model, settings.draft_layers
  if key not in loaded:
    loaded[key] = load_draft(settings, target)
  return _make(name, settings, loaded[key]), loaded[key]


def load_draft(settings: DrafterSettings, target: LoadedModel) -> Draft:
  """What a drafter runs, which drafters of other names and settings may share.

  Raises:
    ValueError: a draft whose vocabulary or layers do not fit the target.
  """
  if settings.draft_model is None:
    return _first_layers(settings.draft_layers or 0, target)
  if trained.is_folder(settings.draft_model):
    return trained.load_draft(settings.draft_model, target)
  draft = load_model(settings.draft_model, target.dtype)
  if target.tokenizer is not None and draft.tokenizer is not None:
    compare_vocabularies(target.tokenizer, draft.tokenizer)
  if draft.model.vocab_size != target.model.vocab_size:
    model = Resized(draft.model, target.model.vocab_size)
    draft = dataclasses.replace(draft, model=model)
  return draft


def _make(name: str, settings: DrafterSettings, draft: Draft | None) -> Drafter:
  """The drafter of settings that were checked, around a draft that is there.

  Raises:
    ValueError: settings that this draft cannot follow.
  """
  kind = find(name)
  given = building.values(name, kind, settings)
  if isinstance(draft, TrainedDraft):
    given = draft.parts | given
  elif draft is not None:
    given["model"] = draft.model
  return building.build(name, kind, given)


def find(name: str) -> type:
  """The class of a drafter.

  Raises:
    ValueError: there is none.
  """
  if made := combined.split(name):
    return made[0]
  if name in DRAFTERS:
    return DRAFTERS[name]
  module, colon, attribute = name.partition(":")
  if not colon:
    close = difflib.get_close_matches(name, DRAFTERS, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    raise ValueError(
      f"unknown drafter {name!r}: {hint}choose from {', '.join(DRAFTERS)}, give"
      " package.module:Class, or two of them as A/B or A+B"
    )
  try:
    kind = getattr(importlib.import_module(module), attribute)
  except Exception as error:
    raise ValueError(
      f"cannot import drafter {name!r}: {type(error).__name__}: {error}"
    ) from error
  needed = ("siblings", "num_nodes", "init", "observe", "propose")
  missing = [part for part in needed if not hasattr(kind, part)]
  if not isinstance(kind, type) or missing:
    what = f"it has no {missing[0]}" if missing else "it is no class"
    raise ValueError(f"{name!r} is no drafter: {what}")
  return kind


def _first_layers(number: int, target: LoadedModel) -> LoadedModel:
  if not isinstance(target.model, Transformer):
    raise ValueError(f"{target.name} has no layers to draft with")
  model, params = first_layers(target.model, target.params, number)
  return dataclasses.replace(
    target, name=f"{target.name}[:{number}]", model=model, params=params
  )
