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
  """

  num_speculative_tokens: int | None = None
  draft_model: str | None = None
  draft_layers: int | None = None
  min_ngram: int | None = None
  max_ngram: int | None = None
