"""Drafters by name or import path."""

import dataclasses
import difflib
import importlib
import inspect
from typing import Any

from specjax import checkpoints
from specjax.checkpoints.loaded import LoadedModel, load_model
from specjax.drafters import shipped, trained
from specjax.drafters.draft_model import DraftModel
from specjax.drafters.eagle import Eagle
from specjax.drafters.heads import Heads
from specjax.drafters.ngram import NGram
from specjax.drafters.none import NoDraft
from specjax.drafters.settings import DrafterSettings
from specjax.drafters.trained import TrainedDraft
from specjax.models.config import DecoderConfig
from specjax.models.decoder import Transformer, first_layers
from specjax.models.resized import Resized
from specjax.text import compare_vocabularies
from specjax.types import Drafter

DRAFTERS = {
  "none": NoDraft,
  "model": DraftModel,
  "ngram": NGram,
  "medusa": Heads,
  "blockwise": Heads,
  "eagle": Eagle,
  "eagle3": Eagle,
}
# What a trained drafter's folder may hold, by the name that it goes with.
_TRAINED = {
  "model": ("draft_model",),
  "medusa": ("medusa",),
  "blockwise": ("blockwise",),
  "eagle": ("eagle1", "eagle3"),
  "eagle3": ("eagle3",),
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
  given = {
    key: value
    for key, value in dataclasses.asdict(settings).items()
    if value is not None
  }
  fields = inspect.signature(kind).parameters
  for key in given:
    if key == "num_speculative_tokens" and kind is NoDraft:
      continue  # so that one command line serves for every drafter
    known = takes_draft(name) if key.startswith("draft_") else key in fields
    if not known:
      raise ValueError(f"drafter {name!r} has no setting {key}")
  if not takes_draft(name):
    _build(name, kind, given)
    return
  if _check_trained(name, settings):
    return
  if ("draft_model" in given) == ("draft_layers" in given):
    raise ValueError(
      f"drafter {name!r} needs either a draft model (--draft_model=NAME) or a"
      " number of the target's layers (--draft_layers=N)"
    )
  if settings.draft_model is not None:
    checkpoints.resolve(settings.draft_model)
  _build(name, kind, {**given, "model": _ANY_MODEL})


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
    if name not in _TRAINED or name == "model":
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
) -> tuple[Drafter, LoadedModel | TrainedDraft | None]:
  """The drafter, and the draft model or trained weights that it runs, if any.

  Args:
    name: "none", "model", "ngram", or "package.module:Class". A class is
      called with those settings that its signature names, and with `model` if
      it names that.
    settings: what was asked for.
    target: what it drafts for.

  Raises:
    ValueError: as `check`; a draft whose vocabulary or layers do not fit.
  """
  settings = completed(name, settings, target.name)
  check(name, settings)
  kind = find(name)
  given = dataclasses.asdict(settings)
  if settings.draft_model and trained.is_folder(settings.draft_model):
    length = settings.num_speculative_tokens
    number = {} if length is None else {"num_speculative_tokens": length}
    return trained.load(settings.draft_model, target, **number)
  if "model" not in inspect.signature(kind).parameters:
    return _build(name, kind, given), None
  draft = _load_draft(settings, target)
  return _build(name, kind, {**given, "model": draft.model}), draft


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


def _build(name: str, kind: type, given: dict[str, Any]) -> Drafter:
  fields = inspect.signature(kind).parameters
  taken = {
    key: value
    for key, value in given.items()
    if key in fields and value is not None
  }
  for key, field in fields.items():
    plain = field.kind in (field.POSITIONAL_OR_KEYWORD, field.KEYWORD_ONLY)
    if plain and field.default is field.empty and key not in taken:
      raise ValueError(
        f"drafter {name!r} needs {key}, which cannot be given by name; call"
        " specjax.generate with an instance of it"
      )
  drafter = kind(**taken)
  if not isinstance(drafter, Drafter):
    missing = [p for p in _PARTS if not hasattr(drafter, p)]
    raise ValueError(f"{name!r} is no drafter: it has no {missing[0]}")
  return drafter


_PARTS = (
  "siblings",
  "num_nodes",
  "num_riders",
  "max_depth",
  "widths",
  "taps",
  "reads_logits",
  "init",
  "observe",
  "propose",
)


def _load_draft(settings: DrafterSettings, target: LoadedModel) -> LoadedModel:
  if settings.draft_model is None:
    return _first_layers(settings.draft_layers or 0, target)
  draft = load_model(settings.draft_model, target.dtype)
  if target.tokenizer is not None and draft.tokenizer is not None:
    compare_vocabularies(target.tokenizer, draft.tokenizer)
  if draft.model.vocab_size != target.model.vocab_size:
    model = Resized(draft.model, target.model.vocab_size)
    draft = dataclasses.replace(draft, model=model)
  return draft


def _first_layers(number: int, target: LoadedModel) -> LoadedModel:
  if not isinstance(target.model, Transformer):
    raise ValueError(f"{target.name} has no layers to draft with")
  model, params = first_layers(target.model, target.params, number)
  return dataclasses.replace(
    target, name=f"{target.name}[:{number}]", model=model, params=params
  )
