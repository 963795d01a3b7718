"""Prompt lookup: what followed the same words earlier is proposed again.

Saxena 2023 (prompt-lookup-decoding); the same idea is LLMA, Yang et al. 2023
(arXiv 2304.04487).
"""

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Int

from specjax import passes, trees
from specjax.drafters.chain import Chain
from specjax.types import Params, Proposal, Rows, Streams


@dataclasses.dataclass(frozen=True)
class NGram(Chain):
  """Longest match of the text's end, between `min_ngram` and `max_ngram` long.

  Of matches of one length the latest wins (transformers and vLLM take the
  earliest). A continuation that reaches the end of the text goes on with its
  own first tokens, so a text with period n is continued with period n. No
  match, no proposal: such a round is a one-token pass. A proposal is a point
  mass.
  """

  num_speculative_tokens: int = 7
  min_ngram: int = 2
  max_ngram: int = 4

  def __post_init__(self):
    super().__post_init__()
    if not 1 <= self.min_ngram <= self.max_ngram:
      raise ValueError(
        "prompt lookup needs 1 <= min_ngram <= max_ngram, got"
        f" {self.min_ngram} and {self.max_ngram}"
      )

  def propose(self, params: Params, state, rows: Rows, budget, keys: Streams):
    end, found = self._match(rows.tokens, rows.length)
    size = self.num_speculative_tokens
    period = jnp.maximum(rows.length - 1 - end, 1)
    offset = jnp.arange(size)[None] % period[:, None]
    index = jnp.clip(end[:, None] + 1 + offset, 0, rows.tokens.shape[1] - 1)
    tokens = jnp.take_along_axis(rows.tokens, index, 1)
    count = jnp.where(found, budget, 0)
    return Proposal(trees.chain(tokens, count)), state

  def _match(self, tokens: Int[Array, "B T"], length: Int[Array, "B"]):
    """(index at which the best match ends, whether there is one).

    tokens   a b c d . . . a b c|     length - 1 is the last c
    matches  0 0 3 0 . . . 0 0 x      x: the suffix does not match itself
    """
    size = tokens.shape[1]
    index = jnp.arange(size)[None]
    matched = jnp.zeros(tokens.shape, jnp.int32)
    unbroken = jnp.broadcast_to(index < length[:, None] - 1, tokens.shape)
    for back in range(self.max_ngram):
      ours = passes.gather_tokens(tokens, length - 1 - back, 1)
      theirs = jnp.roll(tokens, back, 1)
      inside = (index >= back) & (length[:, None] > back)
      unbroken = unbroken & inside & (theirs == ours)
      matched = matched + unbroken
    score = jnp.where(matched >= self.min_ngram, matched, 0)
    rank = score * size + index  # longest first, then latest
    end = jnp.argmax(jnp.where(score > 0, rank, -1), 1).astype(jnp.int32)
    return end, (score > 0).any(1)
