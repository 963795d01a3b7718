"""From the records of rounds to the figures that are printed."""

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Int

from specjax.types import ACCEPTED, DRAFTED, EMITTED, WIDTH


@dataclasses.dataclass(frozen=True)
class Stats:
  """Figures of one row, or of several pooled.

  Attributes:
    rounds: target passes; a pass over a batch counts once for each row in it.
    drafted, accepted: draft tokens proposed, and kept in the output.
    emitted: tokens added, cut at stops.
    accept_lengths: tokens emitted in each round, in order.
    accepted_at: rounds in which position i of the draft was kept.
    drafting_rounds: rounds that drafted anything.
    widths: rounds run at each pass width.
  """

  rounds: int
  drafted: int
  accepted: int
  emitted: int
  accept_lengths: tuple[int, ...]
  accepted_at: tuple[int, ...]
  drafting_rounds: int
  widths: dict[int, int]

  @property
  def mean_acceptance_length(self) -> float:
    """Emitted tokens a target pass; 0 before the first round."""
    return self.emitted / self.rounds if self.rounds else 0.0

  @property
  def draft_acceptance_rate(self) -> float | None:
    """Accepted over drafted; None where nothing was drafted."""
    return self.accepted / self.drafted if self.drafted else None

  @property
  def acceptance_per_position(self) -> tuple[float, ...]:
    """Share of the rounds that drafted in which position i was kept.

    Unconditional on the positions before it, as vLLM prints it.
    """
    return tuple(n / self.drafting_rounds for n in self.accepted_at)


def row_stats(
  history: Int[np.ndarray, "R 4"], count: int, max_depth: int | None = None
) -> Stats:
  """Figures of one row from its history, of which `count` rounds ran.

  Args:
    max_depth: of its drafts; None for chains, as deep as they have nodes.
  """
  ran = np.asarray(history)[:count]
  drafted, accepted = ran[:, DRAFTED], ran[:, ACCEPTED]
  drafting = drafted > 0
  depth = int(drafted.max(initial=0))
  depth = depth if max_depth is None else min(depth, max_depth)
  kept = [int((accepted[drafting] > i).sum()) for i in range(depth)]
  values, counts = np.unique(ran[:, WIDTH], return_counts=True)
  return Stats(
    rounds=len(ran),
    drafted=int(drafted.sum()),
    accepted=int(accepted.sum()),
    emitted=int(ran[:, EMITTED].sum()),
    accept_lengths=tuple(int(n) for n in ran[:, EMITTED]),
    accepted_at=tuple(kept),
    drafting_rounds=int(drafting.sum()),
    widths={int(w): int(n) for w, n in zip(values, counts, strict=True)},
  )


def pool(stats: list[Stats]) -> Stats:
  """Figures of several rows together, lengths in the rows' order."""
  depth = max((len(s.accepted_at) for s in stats), default=0)
  widths: dict[int, int] = {}
  for s in stats:
    for width, n in s.widths.items():
      widths[width] = widths.get(width, 0) + n
  return Stats(
    rounds=sum(s.rounds for s in stats),
    drafted=sum(s.drafted for s in stats),
    accepted=sum(s.accepted for s in stats),
    emitted=sum(s.emitted for s in stats),
    accept_lengths=tuple(n for s in stats for n in s.accept_lengths),
    accepted_at=tuple(
      sum(s.accepted_at[i] for s in stats if i < len(s.accepted_at))
      for i in range(depth)
    ),
    drafting_rounds=sum(s.drafting_rounds for s in stats),
    widths=dict(sorted(widths.items())),
  )


def lane_use(rounds: Int[np.ndarray, "B"]) -> float:
  """Share of the lanes' rounds that a running row used: 1 is no waste."""
  rounds = np.asarray(rounds)
  most = int(rounds.max(initial=0))
  return float(rounds.sum()) / (most * len(rounds)) if most else 1.0


def judged(
  rounds: Iterable[Sequence[int]], depth: int
) -> tuple[list[float | None], list[int]]:
  """Acceptance of position i < `depth` given that all before it was kept.

  A round judges position i if it drafted that many tokens and kept all before
  it, unless a stop or the token limit cut the round there: then nothing is
  known of it. In a tree position i is a depth, and the count of nodes stands
  for the depth drafted.

  Args:
    rounds: (drafted, accepted, emitted, width) of each.
    depth: of the longest draft.

  Returns:
    The share of the rounds that judged a position in which it was kept, None
    where none did; and how many did.
  """
  kept, judged = [0] * depth, [0] * depth
  for drafted, accepted, emitted, _ in rounds:
    for position in range(min(accepted, depth)):
      kept[position] += 1
      judged[position] += 1
    if accepted < min(drafted, depth) and emitted > accepted:
      judged[accepted] += 1
  rates = [k / n if n else None for k, n in zip(kept, judged, strict=True)]
  return rates, judged
