"""What a user may set of a drafter by name."""

import ast
import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class DrafterSettings:
  """None is the drafter's own default.

  Attributes:
    num_speculative_tokens: longest draft; of a tree its depth.
    draft_model: name of a model that drafts, or a trained drafter's folder.
    draft_layers: draft with so many of the target's first layers.
    options: what only this drafter's class takes, sorted by name, such as
      (("max_ngram", 3),); see `of`.

  Raises:
    ValueError: a number below 1.
  """

  num_speculative_tokens: int | None = None
  draft_model: str | None = None
  draft_layers: int | None = None
  options: tuple[tuple[str, Any], ...] = ()

  def __post_init__(self):
    for name in ("num_speculative_tokens", "draft_layers"):
      value = getattr(self, name)
      if isinstance(value, int) and value < 1:
        hint = ""
        if name == "num_speculative_tokens":
          hint = "; use --drafter=none for none"
        raise ValueError(f"{name} must be at least 1, got {value}{hint}")

  @classmethod
  def of(cls, **values: Any) -> "DrafterSettings":
    """Of values by name: what is no field here is an option."""
    own = {key: values.pop(key) for key in FIELDS if key in values}
    return cls(**own, options=tuple(sorted(values.items())))

  def given(self) -> dict[str, Any]:
    """All that is set, by name, options beside the rest."""
    own = {key: getattr(self, key) for key in FIELDS}
    own |= dict(self.options)
    return {key: value for key, value in own.items() if value is not None}


FIELDS = tuple(
  field.name
  for field in dataclasses.fields(DrafterSettings)
  if field.name != "options"
)


def parse(text: str) -> tuple[str, dict[str, Any]]:
  """("ngram", {"max_ngram": 3}) of "ngram max_ngram=3".

  Raises:
    ValueError: no name, or what is no NAME=VALUE.
  """
  name, *rest = text.split() or [""]
  if not name:
    raise ValueError("a drafter has no name")
  own: dict[str, Any] = {}
  for part in rest:
    key, equals, value = part.partition("=")
    if not equals or not key.isidentifier():
      raise ValueError(
        f"drafter {text!r}: {part!r} is no setting; give NAME=VALUE"
      )
    if key in own:
      raise ValueError(f"drafter {text!r} sets {key} twice")
    try:
      own[key] = ast.literal_eval(value)
    except (ValueError, SyntaxError):
      own[key] = value
  return name, own
