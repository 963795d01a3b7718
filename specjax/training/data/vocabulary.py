"""A reduced draft vocabulary: the tokens that answers are made of.

Zhao et al. 2025 (FR-Spec, arXiv 2502.14856) rank tokens by frequency; EAGLE-3
(Li et al. 2025, arXiv 2503.01840) drafts in such a vocabulary.
"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from jaxtyping import Int

from specjax.training.data.conversations import Conversation
from specjax.training.data.store import Store


def count_answers(
  conversations: Iterable[Conversation], vocab_size: int
) -> Int[np.ndarray, "V"]:
  """How often each token stands in an answer."""
  counts = np.zeros(vocab_size, np.int64)
  for conversation in conversations:
    answered = np.asarray(conversation.token_ids)[1:][conversation.mask[:-1]]
    counts += np.bincount(answered, minlength=vocab_size)
  return counts


def frequent_tokens(
  texts: Store | Sequence[Conversation],
  size: int,
  *,
  always: Sequence[int],
  vocab_size: int | None = None,
  held_out: float = 0.05,
  say: Callable[[str], None] = lambda line: None,
) -> Int[np.ndarray, "Vq"]:
  """The `size` likeliest answer tokens, ascending: `Frozen.token_ids`.

  Of tokens that are equally frequent the lower ids come first.

  Args:
    texts: a store, of which only the training side is counted, or texts, all
      of which are.
    size: Vq.
    always: ids that are in it however rare: those that end a text.
    vocab_size: V; of a store, what it states.
    held_out: share of a store's prompts that are kept from training.
    say: gets the coverage, on the same texts, in a line.

  Raises:
    ValueError: a size that cannot hold `always` or exceeds the vocabulary.
  """
  if isinstance(texts, Store):
    counts = texts.answer_counts("train", held_out)
  elif vocab_size is None:
    raise ValueError("vocab_size must be given with texts")
  else:
    counts = count_answers(texts, vocab_size)
  kept = sorted(set(always))
  if not len(kept) <= size <= len(counts):
    raise ValueError(
      f"a vocabulary of {size} tokens must hold the {len(kept)} that always"
      f" stay and be no larger than {len(counts)}"
    )
  if kept and not 0 <= kept[0] <= kept[-1] < len(counts):
    raise ValueError(f"a token that always stays is outside {len(counts)}")
  order = np.argsort(-counts, kind="stable")
  others = order[~np.isin(order, kept)]
  ids = np.sort(np.concatenate([np.asarray(kept, int), others])[:size])
  say(
    f"{size} of {len(counts)} tokens are {coverage(counts, ids):.2%} of"
    f" {counts.sum():,} answer tokens"
  )
  return ids.astype(np.int32)


def coverage(counts: Int[np.ndarray, "V"], ids: Int[np.ndarray, "Vq"]) -> float:
  """Share of the counted tokens that are among `ids`."""
  return float(counts[ids].sum() / max(counts.sum(), 1))
