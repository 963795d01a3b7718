"""Prompt lookup as a tree: what followed the same words in several places.

REST (He et al. 2024, arXiv 2311.08252, section 3.2) merges the continuations
of all matches and keeps the prefixes that occur most; here the text so far is
the datastore.
"""

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Int

from specjax import passes, trees
from specjax.drafters.ngram import check_lengths, continuations, match_lengths
from specjax.filters import largest
from specjax.types import (
  Feedback,
  Nodes,
  Params,
  Proposal,
  Rows,
  Streams,
)


@dataclasses.dataclass(frozen=True)
class NGramTree:
  """Continuations of the best matches of the text's end, merged by prefix.

  Matches are ranked, and go on past the text's end, as `NGram`'s. A node is
  better than another where a longer match leads to it, and of equal lengths
  where more of the matches do; a parent is at least as good as its children, so
  the best nodes are a tree. Of equal nodes those of the match that ranks first
  are kept. Tokens are point masses.

  Attributes:
    num_nodes: N, the most nodes of a row.
    max_depth: tokens taken of a continuation.
    min_ngram, max_ngram: how long a match is.
    num_matches: how many matches are looked at.

  Raises:
    ValueError: a size below 1, more nodes than the matches can give.
  """

  num_nodes: int = 16
  max_depth: int = 7
  min_ngram: int = 2
  max_ngram: int = 4
  num_matches: int = 8

  siblings = "point"
  num_riders = 0
  taps = ()
  reads_logits = False

  def __post_init__(self):
    check_lengths(self.min_ngram, self.max_ngram)
    for name in ("num_nodes", "max_depth", "num_matches"):
      if getattr(self, name) < 1:
        raise ValueError(
          f"{name} must be at least 1, got {getattr(self, name)}"
        )
    most = self.num_matches * self.max_depth
    if self.num_nodes > most:
      raise ValueError(
        f"{self.num_matches} matches of {self.max_depth} tokens give {most}"
        f" nodes, fewer than num_nodes={self.num_nodes}"
      )

  @property
  def widths(self) -> tuple[int, ...]:
    return (1, 1 + self.num_nodes)

  def init(self, params: Params, batch: int, capacity: int):
    return ()

  def observe(self, params: Params, state, seen: Feedback):
    return state

  def propose(self, params: Params, state, rows: Rows, budget, keys: Streams):
    tokens, length = rows.tokens, rows.length
    matched = match_lengths(tokens, length, self.min_ngram, self.max_ngram)
    matched = jnp.where(budget[:, None] > 0, matched, 0)
    nodes = passes.confined(
      (matched > 0).any(), lambda: self._tree(tokens, length, matched, budget)
    )
    return Proposal(nodes), state

  def _tree(
    self,
    tokens: Int[Array, "B T"],
    length: Int[Array, "B"],
    matched: Int[Array, "B T"],
    budget: Int[Array, "B"],
  ) -> Nodes:
    size = tokens.shape[1]
    # A float32 counts to 2^24: for a max_ngram of 4, 4 million tokens of text.
    rank = matched * size + jnp.arange(size)[None]
    rank = jnp.where(matched > 0, rank, -1).astype(jnp.float32)
    _, end = largest(rank, min(self.num_matches, size))
    number, deep = end.shape[1], self.max_depth
    longest = jnp.take_along_axis(matched, end, 1)
    following = continuations(tokens, length, end.astype(jnp.int32), deep)
    step = jnp.arange(deep, dtype=jnp.int32)[None, None]
    there = (longest > 0)[..., None] & (step < budget[:, None, None])
    forest = trees.chains(following)
    there = there.reshape(forest.tokens.shape)
    merged = trees.merge_siblings(forest, there)
    # The first copy of a node is that of the longest match.
    of_first = jnp.take_along_axis(longest, merged.first // deep, 1)
    score = of_first * (number + 1) + merged.copies
    score = jnp.where(trees.live(merged.nodes), score, -jnp.inf)
    return trees.best_nodes(merged.nodes, score, self.num_nodes)
