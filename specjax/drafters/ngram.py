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
    check_lengths(self.min_ngram, self.max_ngram)

  def propose(self, params: Params, state, rows: Rows, budget, keys: Streams):
    tokens, length = rows.tokens, rows.length
    matched = match_lengths(tokens, length, self.min_ngram, self.max_ngram)
    rank = matched * tokens.shape[1] + jnp.arange(tokens.shape[1])[None]
    rank = jnp.where(matched > 0, rank, -1)  # longest first, then latest
    end = jnp.argmax(rank, 1).astype(jnp.int32)
    size = self.num_speculative_tokens
    following = continuations(tokens, length, end[:, None], size)[:, 0]
    count = jnp.where((matched > 0).any(1), budget, 0)
    return Proposal(trees.chain(following, count)), state


def check_lengths(min_ngram: int, max_ngram: int) -> None:
  """Raises ValueError for lengths of matches that make no range."""
  if not 1 <= min_ngram <= max_ngram:
    raise ValueError(
      "prompt lookup needs 1 <= min_ngram <= max_ngram, got"
      f" {min_ngram} and {max_ngram}"
    )


def match_lengths(
  tokens: Int[Array, "B T"],
  length: Int[Array, "B"],
  min_ngram: int,
  max_ngram: int,
) -> Int[Array, "B T"]:
  """How much of the text's end stands before each place, that one included.

  tokens   a b c d . . . a b c|     length - 1 is the last c
  lengths  0 0 3 0 . . . 0 0 x      x: the suffix does not match itself

  At most `max_ngram`; 0 where it is less than `min_ngram`.
  """
  index = jnp.arange(tokens.shape[1])[None]
  matched = jnp.zeros(tokens.shape, jnp.int32)
  unbroken = jnp.broadcast_to(index < length[:, None] - 1, tokens.shape)
  for back in range(max_ngram):
    ours = passes.gather_tokens(tokens, length - 1 - back, 1)
    theirs = jnp.roll(tokens, back, 1)
    inside = (index >= back) & (length[:, None] > back)
    unbroken = unbroken & inside & (theirs == ours)
    matched = matched + unbroken
  return jnp.where(matched >= min_ngram, matched, 0)


def continuations(
  tokens: Int[Array, "B T"],
  length: Int[Array, "B"],
  end: Int[Array, "B M"],
  size: int,
) -> Int[Array, "B M D"]:
  """`size` tokens after each `end`, round and round where the text is over."""
  period = jnp.maximum(length[:, None] - 1 - end, 1)[..., None]
  offset = jnp.arange(size)[None, None] % period
  index = jnp.clip(end[..., None] + 1 + offset, 0, tokens.shape[1] - 1)
  flat = index.reshape(index.shape[0], -1)
  return jnp.take_along_axis(tokens, flat, 1).reshape(index.shape)
