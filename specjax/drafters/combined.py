"""Drafters that are made of others, by name: "ngram/eagle3", "ngram+eagle3"."""

import dataclasses
import inspect
from collections.abc import Callable, Sequence

from specjax.drafters.combination import Combination
from specjax.drafters.first_of import FirstOf
from specjax.drafters.merge import Merge
from specjax.drafters.settings import DrafterSettings

_SIGNS: dict[str, type[Combination]] = {"/": FirstOf, "+": Merge}


def split(name: str) -> tuple[type[Combination], tuple[str, ...]] | None:
  """(the combination, names of its parts); None of a name without parts.

  Raises:
    ValueError: both signs in one name, or a part without a name.
  """
  signs = [sign for sign in _SIGNS if sign in name]
  if not signs:
    return None
  if len(signs) > 1:
    raise ValueError(
      f"drafter {name!r} mixes / (the first that has something) and + (all in"
      " one tree): take one of them"
    )
  parts = tuple(part.strip() for part in name.split(signs[0]))
  if "" in parts:
    raise ValueError(f"drafter {name!r} has a part without a name")
  return _SIGNS[signs[0]], parts


def settings_of_parts(
  name: str,
  parts: Sequence[str],
  settings: DrafterSettings,
  find: Callable[[str], type],
  takes_draft: Callable[[str], bool],
) -> tuple[DrafterSettings, ...]:
  """Each part's share: the length, and the options that it knows.

  Raises:
    ValueError: an option that no part knows, one draft for several parts.
  """
  drafting = [part for part in parts if takes_draft(part)]
  named = settings.draft_model is not None or settings.draft_layers is not None
  if named and len(drafting) != 1:
    raise ValueError(
      f"a draft is given and {len(drafting)} parts of {name!r} run one: leave"
      " it out, and each takes what is shipped for it"
    )
  fields = [set(inspect.signature(find(part)).parameters) for part in parts]
  for key, _ in settings.options:
    if not any(key in known for known in fields):
      raise ValueError(f"no part of drafter {name!r} has a setting {key}")
  without = dataclasses.replace(settings, draft_model=None, draft_layers=None)
  return tuple(
    dataclasses.replace(
      settings if part in drafting else without,
      options=tuple(pair for pair in settings.options if pair[0] in known),
    )
    for part, known in zip(parts, fields, strict=True)
  )
