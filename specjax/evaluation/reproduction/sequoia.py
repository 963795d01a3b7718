"""Sequoia: the best static tree by dynamic programme.

Its measured speedups rest on acceptance vectors that it does not print, so the
vector here is an example, and what is held to the paper are its claims: the
programme's tree is the best of its size, and a chain stops gaining while the
tree goes on.
"""

import functools
from collections.abc import Iterator

import numpy as np
from jaxtyping import Float

from specjax.evaluation.reproduction.cells import (
  Cell,
  Figure,
  Paper,
  Settings,
)
from specjax.theory import speedup, trees

RANKS = np.asarray([0.6, 0.15, 0.07, 0.04, 0.03, 0.02, 0.015, 0.01])
SIZES = (2, 4, 8, 16, 32, 64)
ENUMERATED = 7  # slots up to which all trees are tried


@functools.cache
def _forests(size: int, ranks: tuple[float, ...]) -> tuple[float, ...]:
  """Values of all forests of `size` nodes whose roots have these ranks on.

  Trees of unequal topology are all there: the first root takes every size.
  """
  if not size:
    return (0.0,)
  if not ranks:
    return ()
  found = list(_forests(size, ranks[1:]))  # nothing at this rank
  for taken in range(1, size + 1):
    for below in _forests(taken - 1, tuple(RANKS.tolist())):
      for beside in _forests(size - taken, ranks[1:]):
        found.append(ranks[0] * (1 + below) + beside)
  return tuple(found)


def enumerate_best(size: int) -> float:
  """Most tokens of any tree of at most so many slots."""
  ranks = tuple(RANKS.tolist())
  return 1 + max(max(_forests(n, ranks)) for n in range(size))


def _best(sizes) -> Float[np.ndarray, "N"]:
  largest = max(sizes)
  return np.asarray(trees.most_tokens(RANKS, largest, largest - 1))[-1][
    [*sizes]
  ]


def cells(settings: Settings) -> Iterator[Cell]:
  """The optimum by size, against chains, and against all trees."""
  del settings
  note = "at the example vector .6 .15 .07 .04 .03 .02 .015 .01"
  best = _best(range(SIZES[-1] + 1))
  for size in SIZES:
    tokens = best[size]
    place = f"best tree of {size} slots"
    yield Cell(
      f"{place}: tokens", "formula", float(tokens), None, 0.0, note=note
    )
    chain = float(speedup.tokens_per_pass(RANKS[0], size - 1))
    yield Cell(f"chain of {size} slots: tokens", "formula", chain, None, 0.0)
  for size in range(2, ENUMERATED + 1):
    yield Cell(
      f"section 3.1, {size} slots: programme less the best of all trees",
      "formula",
      float(best[size]) - enumerate_best(size),
      0.0,
      1e-5,
      note="the claim that the programme is optimal; all trees enumerated",
    )
  most = float(speedup.most_tokens_per_pass(RANKS[0]))
  for size in (16, 64):
    ours = float(best[size])
    yield Cell(
      f"{size} slots: the tree passes every chain (1 is yes)",
      "formula",
      float(ours > most),
      1.0,
      0.0,
      note=f"{ours:.3f} tokens; no chain gives more than {most:.1f}",
    )


def figures(settings: Settings) -> Iterator[Figure]:
  """Tokens by slots: the best tree, a chain, and a tree of two children."""
  del settings
  sizes = [*range(2, 129)]
  slots = [float(n) for n in sizes]
  depths = [*range(1, 7)]
  pair = float(RANKS[:2].sum())
  yield Figure(
    "Tokens a pass by size of the tree",
    "slots",
    "tokens a pass",
    {
      "best tree": (slots, _best(sizes).tolist()),
      "chain": (
        slots,
        [float(speedup.tokens_per_pass(RANKS[0], n - 1)) for n in sizes],
      ),
      "two children everywhere": (
        [2.0 ** (d + 1) - 1 for d in depths],
        [float(speedup.tokens_per_pass(pair, d)) for d in depths],
      ),
    },
    logx=True,
  )


PAPER = Paper(
  "sequoia",
  "Sequoia: Scalable, Robust, and Hardware-aware Speculative Decoding",
  "arXiv 2402.12374",
  cells,
  figures,
)
