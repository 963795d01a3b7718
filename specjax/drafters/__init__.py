"""Drafters: each a thin file that proposes nodes for the one loop."""

from specjax.drafters.chain import Chain
from specjax.drafters.draft_model import DraftModel
from specjax.drafters.ngram import NGram
from specjax.drafters.none import NoDraft
from specjax.drafters.registry import resolve
from specjax.drafters.settings import DrafterSettings

__all__ = [
  "Chain",
  "DraftModel",
  "DrafterSettings",
  "NGram",
  "NoDraft",
  "resolve",
]
