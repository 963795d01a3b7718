"""Drafters by name or import path."""

import dataclasses
import difflib
import importlib
import inspect

from specjax import checkpoints
from specjax.checkpoints.loaded import LoadedModel, load_model
from specjax.drafters import building, shipped, trained
from specjax.drafters.draft_model import DraftModel
from specjax.drafters.draft_tree import DraftTree
from specjax.drafters.eagle import Eagle
from specjax.drafters.eagle_tree import EagleTree
from specjax.drafters.heads import Heads, HeadTree
from specjax.drafters.ngram import NGram
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


def check(name: str, settings: DrafterSettings) -> None:
  """Refuses what can be refused before a model is loaded.

  Raises:
    ValueError: no such drafter, an import path that is no drafter, a setting
      that the drafter does not take or that is out of range.
  """
  kind = find(name)
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
  return shipped.completed(settings, _TRAINED.get(name, ()), target)


def takes_draft(name: str) -> bool:
  """Whether a drafter runs a draft model or trained weights.

  Raises:
    ValueError: no such drafter.
  """
  kind = find(name)
  return name in _TRAINED or "model" in inspect.signature(kind).parameters


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
  name: str, settings: DrafterSettings, target: LoadedModel
) -> tuple[Drafter, Draft | None]:
  """The drafter, and the draft model or trained weights that it runs, if any.

  Args:
    name: a key of `DRAFTERS` or "package.module:Class". A class is called with
      those settings that its signature names, and with `model` if it names
      that.
    settings: what was asked for.
    target: what it drafts for.

  Raises:
    ValueError: as `check`; a draft whose vocabulary or layers do not fit.
  """
  settings = completed(name, settings, target.name)
  check(name, settings)
  draft = load_draft(settings, target) if takes_draft(name) else None
  return make(name, settings, draft), draft


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


def make(name: str, settings: DrafterSettings, draft: Draft | None) -> Drafter:
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
  if name in DRAFTERS:
    return DRAFTERS[name]
  module, colon, attribute = name.partition(":")
  if not colon:
    close = difflib.get_close_matches(name, DRAFTERS, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    raise ValueError(
      f"unknown drafter {name!r}: {hint}choose from {', '.join(DRAFTERS)}, or"
      " give package.module:Class"
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
