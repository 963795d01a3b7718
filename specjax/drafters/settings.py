"""What a user may set of a drafter by name."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class DrafterSettings:
  """None is the drafter's own default.

  Attributes:
    num_speculative_tokens: longest draft.
    draft_model: name of a model that drafts.
    draft_layers: draft with so many of the target's first layers.
    min_ngram, max_ngram: lengths of match of prompt lookup.

  Raises:
    ValueError: a number below 1.
  """

  num_speculative_tokens: int | None = None
  draft_model: str | None = None
  draft_layers: int | None = None
  min_ngram: int | None = None
  max_ngram: int | None = None

  def __post_init__(self):
    for name, value in vars(self).items():
      if isinstance(value, int) and value < 1:
        hint = ""
        if name == "num_speculative_tokens":
          hint = "; use --drafter=none for none"
        raise ValueError(f"{name} must be at least 1, got {value}{hint}")
