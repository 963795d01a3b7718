"""Data from the target: conversations, labels of them, batches.

Three stages, each a file or folder that the next one reads:
docs/training_data.md tells how they go together.
"""

from specjax.training.data.answers import (
  Making,
  answer_prompts,
  make_synthetic,
)
from specjax.training.data.batches import Batches
from specjax.training.data.conversations import (
  Conversation,
  answer_tokens,
  first_tokens,
  is_held_out,
  read_conversations,
)
from specjax.training.data.corpus import corpus_windows
from specjax.training.data.identity import identify
from specjax.training.data.labels import Labelling, label, labels
from specjax.training.data.packing import pack, unpack
from specjax.training.data.plain import PlainTexts
from specjax.training.data.prompts import Prompt, read_prompts, stored_prompts
from specjax.training.data.shared import check_holds, cover
from specjax.training.data.store import MANIFEST, Store, make_store
from specjax.training.data.traces import add_traces, read_traces
from specjax.training.data.vocabulary import (
  count_answers,
  coverage,
  frequent_tokens,
)

__all__ = [
  "MANIFEST",
  "Batches",
  "Conversation",
  "Labelling",
  "Making",
  "PlainTexts",
  "Prompt",
  "Store",
  "add_traces",
  "answer_prompts",
  "answer_tokens",
  "check_holds",
  "corpus_windows",
  "count_answers",
  "cover",
  "coverage",
  "first_tokens",
  "frequent_tokens",
  "identify",
  "is_held_out",
  "label",
  "labels",
  "make_store",
  "make_synthetic",
  "pack",
  "read_conversations",
  "read_prompts",
  "read_traces",
  "stored_prompts",
  "unpack",
]
