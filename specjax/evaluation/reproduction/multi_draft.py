"""Several candidates for one position: acceptance by rule, and a biased rule.

SpecTr (2310.15141) prints the law of testing K drafts independently and the
tokens of K drafts of length L; SpecInfer (2305.09781) and RSD (2402.14160)
state rules. The acceptance table is computed, printed nowhere: each closed form
is held to the rule played out over every sequence of candidates.
"""

import itertools
from collections.abc import Iterator

import numpy as np
from jaxtyping import Float

from specjax.evaluation.reproduction.cells import (
  Cell,
  Figure,
  Paper,
  Settings,
  half_unit,
)
from specjax.theory import siblings, speedup, toy_language

Law = Float[np.ndarray, "V"]


def _pairs() -> dict[str, tuple[Law, Law, tuple[int, ...]]]:
  """Name: target, draft, numbers of candidates."""
  p, q = toy_language.laws()
  ramp = np.arange(1, 7) / 21
  small = np.asarray([0.6, 0.3, 0.1]), np.asarray([0.3, 0.6, 0.1])
  return {
    "three tokens": (*small, (1, 2, 3)),
    "six tokens": (ramp, ramp[::-1].copy(), (1, 2, 3, 4)),
    "four-token language": (p[0], q[0], (2,)),
  }


COIN = np.asarray([0.5, 0.5]), np.asarray([0.0, 1.0])
BIAS = {1: 0.5, 2: 0.75, 4: 0.9375, 8: 0.996}
# SpecTr, PaLM 2 on LM1B: tokens a call at L = 4 and at L = 8.
TOKENS = {1: (2.4, 2.9), 8: (3.1, 4.0)}


def _residual(p: Law, q: Law) -> Law:
  left = np.maximum(p - q, 0)
  return left / left.sum() if left.sum() > 1e-15 else p


def play_in_turn(p: Law, q: Law, count: int, distinct: bool) -> float:
  """Acceptance of candidates tried one after another, by enumeration."""
  if not count or not q.sum():
    return 0.0
  accepted, after = 0.0, _residual(p, q)
  for token in np.flatnonzero(q):
    keep = min(1.0, p[token] / q[token])
    draft = np.where((np.arange(len(q)) == token) & distinct, 0, q)
    draft = draft / draft.sum() if draft.sum() > 0 else draft
    later = play_in_turn(after, draft, count - 1, distinct)
    accepted += q[token] * (keep + (1 - keep) * later)
  return accepted


def play_sets(p: Law, q: Law, count: int) -> float:
  """The target's own sample is one of K draws, over all sequences."""
  total = 0.0
  for drawn in itertools.product(range(len(q)), repeat=count):
    total += np.prod(q[list(drawn)]) * p[sorted(set(drawn))].sum()
  return float(total)


def play_cuts(p: Law, q: Law, count: int) -> float:
  """The minimum cut of the transport problem, over all sets."""
  sets = itertools.product([False, True], repeat=len(p))
  masks = [np.asarray(s) for s in sets]
  return float(min(p[s].sum() + 1 - q[s].sum() ** count for s in masks))


def play_independently(p: Law, q: Law, count: int) -> Law:
  """The law of testing each of K draws against p, p never updated."""
  keep = np.where(q > 0, np.minimum(1, p / np.where(q > 0, q, 1)), 0)
  law = np.zeros_like(p)
  for drawn in itertools.product(np.flatnonzero(q), repeat=count):
    left = np.prod(q[list(drawn)])
    for token in drawn:
      law[token] += left * keep[token]
      left *= 1 - keep[token]
    law += left * _residual(p, q)
  return law


RULES = {
  "naive": ("naive_acceptance", play_sets),
  "in turn": (
    "recursive_acceptance",
    lambda p, q, k: play_in_turn(p, q, k, False),
  ),
  "in turn, distinct": (
    "distinct_acceptance",
    lambda p, q, k: play_in_turn(p, q, k, True),
  ),
  "K-SEQ": ("kseq_acceptance", None),
  "best possible": ("best_acceptance", play_cuts),
  "top K as point masses": ("top_acceptance", None),
}


def _table() -> Iterator[Cell]:
  worst = np.inf
  for pair, (p, q, counts) in _pairs().items():
    for count in counts:
      place = f"{pair}, K {count}"
      ours = {}
      for rule, (name, enumerated) in RULES.items():
        ours[rule] = float(getattr(siblings, name)(p, q, count))
        note = "closed form"
        if enumerated is not None:
          note += f"; {enumerated(p, q, count):.4f} over all candidates"
        where = f"{place}: {rule}"
        yield Cell(where, "formula", ours[rule], None, 0.0, note=note)
      worst = min(worst, ours["K-SEQ"] / ours["best possible"])
  yield Cell(
    "SpecTr: K-SEQ accepts at least 1 - 1/e of the best (1 is yes)",
    "formula",
    float(worst >= 1 - np.exp(-1)),
    1.0,
    0.0,
    note=f"least {worst:.3f} over the table",
  )


def _bias() -> Iterator[Cell]:
  for count, printed in BIAS.items():
    place = f"independent tests of a fair coin, K {count}: P(1)"
    decimals = len(str(printed)) - 2
    ours = float(siblings.independent_law(*COIN, count)[1])
    half = half_unit(decimals)
    yield Cell(place, "formula", ours, printed, half, note="the target's is .5")
    law = play_independently(*COIN, count)
    where = f"{place}, enumerated"
    yield Cell(where, "formula", float(law[1]), printed, half)


def _longer() -> Iterator[Cell]:
  """From tokens at L = 4 to those at L = 8 by one constant alpha."""
  for count, (short, printed) in TOKENS.items():
    half = half_unit(1)
    ends = [short - half, short, short + half]
    alpha = speedup.acceptance_of_tokens(np.asarray(ends), 4)
    low, ours, high = np.asarray(speedup.tokens_per_pass(alpha, 8))
    yield Cell(
      f"SpecTr, PaLM 2 on LM1B, K {count}, L 8: tokens a call",
      "formula",
      float(ours),
      printed,
      half + float(high - low) / 2,
      note=(
        f"predicted from {short} at L 4 by one alpha ({float(alpha[1]):.2f});"
        " the tolerance counts its rounding. Real acceptance varies by context,"
        " so that long drafts gain more than a constant alpha says"
      ),
    )


def cells(settings: Settings) -> Iterator[Cell]:
  """The biased rule, the table, and longer drafts from shorter ones."""
  del settings
  yield from _bias()
  yield from _table()
  yield from _longer()


def figures(settings: Settings) -> Iterator[Figure]:
  """Acceptance by number of candidates, six tokens."""
  del settings
  p, q, counts = _pairs()["six tokens"]
  yield Figure(
    "Acceptance of K candidates, p rising and q falling over six tokens",
    "K",
    "acceptance",
    {
      rule: (
        [float(k) for k in counts],
        [float(getattr(siblings, name)(p, q, k)) for k in counts],
      )
      for rule, (name, _) in RULES.items()
    },
  )


PAPER = Paper(
  "multi_draft",
  "SpecTr, SpecInfer and recursive rejection sampling",
  "arXiv 2310.15141, 2305.09781, 2402.14160",
  cells,
  figures,
)
