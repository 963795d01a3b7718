"""From settings by name to a drafter's value."""

import inspect
from typing import Any

from specjax import topologies
from specjax.drafters.none import NoDraft
from specjax.drafters.settings import DrafterSettings
from specjax.topologies import Topology
from specjax.types import Drafter

_DRAFT = ("draft_model", "draft_layers")
_LENGTH = "num_speculative_tokens"
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
_KINDS = {
  bool: "true or false",
  int: "a whole number",
  float: "a number",
  str: "a word",
}


def values(name: str, kind: type, settings: DrafterSettings) -> dict[str, Any]:
  """What a drafter's class is called with, beside its draft.

  A tree is given by its name (`topologies.named`). The length of a draft is the
  depth of a tree: a static one is cut there.

  Args:
    name: as it was asked for.
    kind: its class.
    settings: what was asked for.

  Raises:
    ValueError: a setting that it does not take, or of the wrong kind.
  """
  fields = inspect.signature(kind).parameters
  given = {k: v for k, v in settings.given().items() if k not in _DRAFT}
  length = given.pop(_LENGTH, None)
  taken = {}
  for key, value in given.items():
    if key not in fields:
      raise ValueError(f"drafter {name!r} has no setting {key}{_known(fields)}")
    taken[key] = _converted(name, key, value, fields[key].default)
  if length is None or kind is NoDraft:
    return taken  # one command line serves for every drafter
  if _LENGTH in fields:
    taken[_LENGTH] = length
  elif "tree" in fields:
    tree = taken.get("tree", fields["tree"].default)
    if length > tree.max_depth:
      raise ValueError(
        f"drafter {name!r} has a tree {tree.max_depth} deep and cannot draft"
        f" {length} tokens; give another tree"
      )
    taken["tree"] = tree.cut(length)
  elif "max_depth" in fields:
    taken.setdefault("max_depth", length)
  else:
    raise ValueError(f"drafter {name!r} has no setting {_LENGTH}")
  return taken


def build(name: str, kind: type, given: dict[str, Any]) -> Drafter:
  """A drafter of its class.

  Args:
    name: as it was asked for.
    kind: its class.
    given: what the class is called with; what is not there is its default.

  Raises:
    ValueError: a value that is missing or refused, or what is no drafter.
  """
  for key, field in inspect.signature(kind).parameters.items():
    plain = field.kind in (field.POSITIONAL_OR_KEYWORD, field.KEYWORD_ONLY)
    if plain and field.default is field.empty and key not in given:
      raise ValueError(
        f"drafter {name!r} needs {key}, which cannot be given by name; call"
        " specjax.generate with an instance of it"
      )
  drafter = kind(**given)
  if not isinstance(drafter, Drafter):
    missing = [p for p in _PARTS if not hasattr(drafter, p)]
    raise ValueError(f"{name!r} is no drafter: it has no {missing[0]}")
  return drafter


def _known(fields) -> str:
  """The settings that can be given by name, for an error."""
  known = [
    key
    for key, field in fields.items()
    if key == _LENGTH
    or isinstance(field.default, (*_KINDS, Topology))
    and field.default is not field.empty
  ]
  return f"; known are {', '.join(known)}" if known else ""


def _converted(name: str, key: str, value: Any, default: Any) -> Any:
  """A setting's value, of the kind of its default."""
  if isinstance(default, Topology):
    return topologies.named(str(value))
  if isinstance(default, float) and type(value) is int:
    return float(value)
  wanted = type(default)
  if wanted in _KINDS and type(value) is not wanted:
    raise ValueError(
      f"drafter {name!r}: {key} must be {_KINDS[wanted]}, got {value!r}"
    )
  return value
