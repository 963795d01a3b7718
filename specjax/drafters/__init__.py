"""Drafters: each a thin file that proposes nodes for the one loop."""

from specjax.drafters.chain import Chain
from specjax.drafters.draft_model import DraftModel
from specjax.drafters.draft_tree import DraftTree
from specjax.drafters.eagle import Eagle
from specjax.drafters.eagle_tree import EagleTree
from specjax.drafters.first_of import FirstOf
from specjax.drafters.heads import Heads, HeadTree
from specjax.drafters.jacobi import Jacobi
from specjax.drafters.lookahead import Lookahead
from specjax.drafters.merge import Merge
from specjax.drafters.ngram import NGram
from specjax.drafters.ngram_tree import NGramTree
from specjax.drafters.none import NoDraft
from specjax.drafters.registry import resolve
from specjax.drafters.settings import DrafterSettings
from specjax.drafters.trained import TrainedDraft
from specjax.drafters.trained import load as load_drafter

__all__ = [
  "Chain",
  "DraftModel",
  "DraftTree",
  "DrafterSettings",
  "Eagle",
  "EagleTree",
  "FirstOf",
  "HeadTree",
  "Heads",
  "Jacobi",
  "Lookahead",
  "Merge",
  "NGram",
  "NGramTree",
  "NoDraft",
  "TrainedDraft",
  "load_drafter",
  "resolve",
]
