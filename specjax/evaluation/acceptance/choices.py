"""What a choice of the drafter in every round could reach at best."""

import dataclasses

import numpy as np
from jaxtyping import Int


@dataclasses.dataclass(frozen=True)
class Choices:
  """Rounds that say one text.

  Attributes:
    tokens: of the text.
    alone: rounds of each drafter, if it drafts in all of them.
    together: the fewest rounds if each may be any drafter's.
    used: the drafter of each of those rounds, in one way to have so few.
  """

  tokens: int
  alone: tuple[int, ...]
  together: int
  used: tuple[int, ...]

  @property
  def gain(self) -> float:
    """Rounds of the best drafter alone over those of the best choices."""
    return min(self.alone) / self.together


def fewest_rounds(kept: Int[np.ndarray, "drafters tokens"]) -> Choices:
  """Choices that see the future, which no policy does: an upper bound.

  Dynamic programming from the end. A long draft is not always the one to take:
  where it ends, what comes next may be hard for all.

  It bounds drafters whose proposals depend on the text alone, as greedy ones
  and those that exact match judges do, and rounds of which one proposes.

  Args:
    kept: how many nodes of each drafter a round keeps that begins where the
      next token is number t: `alpha.force` gives it with the drafter's depth.
      Such a round emits one token more, but none past the text.

  Raises:
    ValueError: no drafter or no token, or less than no node kept.
  """
  if not kept.size or (kept < 0).any():
    raise ValueError(
      "kept must be [drafters, tokens] of 0 or more, got"
      f" {kept.min(initial=0)} in shape {kept.shape}"
    )
  size = kept.shape[1]
  ends = np.minimum(np.arange(size) + kept + 1, size)
  fewest, choice = np.zeros(size + 1, int), np.zeros(size, int)
  alone = np.zeros((len(kept), size + 1), int)
  for at in reversed(range(size)):
    choice[at] = np.argmin(fewest[ends[:, at]])
    fewest[at] = 1 + fewest[ends[choice[at], at]]
    alone[:, at] = 1 + alone[np.arange(len(kept)), ends[:, at]]
  used, at = [], 0
  while at < size:
    used.append(int(choice[at]))
    at = ends[choice[at], at]
  return Choices(
    tokens=size,
    alone=tuple(alone[:, 0].tolist()),
    together=int(fewest[0]),
    used=tuple(used),
  )
