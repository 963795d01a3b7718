"""How long to draft: speedup at every draft length, from rates and from costs.

All functions are of one row, one drafter and one law.
"""

import dataclasses
from collections.abc import Sequence

from specjax.evaluation.costs.costs import Costs
from specjax.theory import speedup


@dataclasses.dataclass(frozen=True)
class Position:
  """What the i-th drafted token brings, and costs.

  Attributes:
    position: i, from 1.
    gain_tokens: tokens that a round emits more with it: the rounds that
      drafted times the unconditional rate at i.
    cost_passes: time that a round takes longer with it, in one-token passes:
      one more draft step and a wider pass.
    speedup: over plain decoding of drafts that end at i.
    pays: whether it gains more tokens for its time than the round without it.
  """

  position: int
  gain_tokens: float
  cost_passes: float
  speedup: float
  pays: bool


def by_position(
  rates: Sequence[float], share_drafting: float, costs: Costs, context: int
) -> list[Position]:
  """Positions 1 to the deepest, from the rates of the longest drafts.

  A round of drafts of length g emits E = 1 + s (r_1 + ... + r_g) tokens, for
  r_i the unconditional rates and s the share of rounds that draft; it takes
  draft(g) + s pass(g + 1) + (1 - s) pass(1). Position i pays while its tokens
  over its time exceed E over the time of the round that ends before it, which
  is the rule of goodput (SmartSpec, Liu et al. 2024, arXiv 2406.14066).

  Raises:
    ValueError: a width that was not measured.
  """
  plain = costs.pass_seconds(1, context)
  tokens, seconds = 1.0, costs.draft_seconds(0, context) + plain
  found = []
  for position, rate in enumerate(rates, 1):
    wide = costs.pass_seconds(position + 1, context)
    after = costs.draft_seconds(position, context)
    after += share_drafting * wide + (1 - share_drafting) * plain
    gain = share_drafting * rate
    found.append(
      Position(
        position=position,
        gain_tokens=gain,
        cost_passes=(after - seconds) / plain,
        speedup=(tokens + gain) * plain / after,
        pays=gain * seconds > tokens * (after - seconds),
      )
    )
    tokens, seconds = tokens + gain, after
  return found


def cut(positions: Sequence[Position]) -> int:
  """Where drafts should end: the length of the largest speedup, 0 for none.

  Passes grow in steps, so the first position that does not pay need not be the
  end: a later one may make up for it.
  """
  best = max(positions, key=lambda p: p.speedup, default=None)
  return best.position if best and best.speedup > 1 else 0


def closed_form(alpha: float, length: int, c: float) -> float:
  """Theorem 3.8 of Leviathan et al. 2023 (arXiv 2211.17192).

  A pass over all drafted tokens is taken to cost what one over one token does.
  """
  return float(speedup.speedup(alpha, length, c))
