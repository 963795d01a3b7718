"""A round as a reader sees it: what was proposed, judged and emitted."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from specjax.types import EMITTED, WIDTH

HostLook = Mapping[str, Any]  # one row of a Look by its fields: numpy

Fate = Literal["accepted", "refused", "unreached", "cut"]


@dataclasses.dataclass(frozen=True)
class NodeTrace:
  """A proposed token.

  Attributes:
    slot, parent: its place in the target pass, and its parent's.
    p: the target's probability at the parent's slot; in a greedy row that of
      temperature 1.
    q: the draft's; None for a point mass.
    fate: "refused" where its parent was kept and it was not, "unreached" where
      its parent was not kept, "cut" where it was kept and then dropped at a
      stop or at the row's limit.
  """

  slot: int
  parent: int
  token: int
  p: float
  q: float | None
  fate: Fate


@dataclasses.dataclass(frozen=True)
class EmittedTrace:
  """A token of the output.

  Attributes:
    slot: the accepted node's slot; None for the target's own token.
    p: the target's probability, as for a node.
    alternatives: the target's likeliest tokens there, with p.
  """

  token: int
  slot: int | None
  p: float
  alternatives: tuple[tuple[int, float], ...]


@dataclasses.dataclass(frozen=True)
class RoundTrace:
  """One round of one row."""

  width: int
  nodes: tuple[NodeTrace, ...]
  emitted: tuple[EmittedTrace, ...]


def trace_rounds(
  looks: Sequence[HostLook],
  history: Sequence[np.ndarray],
  tokens: Sequence[int],
) -> tuple[RoundTrace, ...]:
  """The rounds of one row.

  Args:
    looks: at each round, of this row alone.
    history: the rounds' figures.
    tokens: all that they emitted.
  """
  traces, start = [], 0
  history = history if looks else ()
  for look, record in zip(looks, history, strict=True):
    end = start + int(record[EMITTED])
    traces.append(_round(look, int(record[WIDTH]), tokens[start:end]))
    start = end
  return tuple(traces)


def _round(look: HostLook, width: int, tokens: Sequence[int]) -> RoundTrace:
  parents, q = look["parents"], look["q"]
  kept = look["slots"][: look["accepted"] + 1].tolist()
  path = kept[1 : len(tokens) + 1]  # what of them is in the output
  nodes = tuple(
    NodeTrace(
      slot=i + 1,
      parent=int(parents[i]),
      token=int(look["tokens"][i]),
      p=float(look["p"][i]),
      q=None if math.isnan(q[i]) else float(q[i]),
      fate=_fate(i + 1, int(parents[i]), kept, path),
    )
    for i in range(look["count"])
  )
  emitted = tuple(
    EmittedTrace(
      token=token,
      slot=path[place] if place < len(path) else None,
      p=float(look["p_emitted"][place]),
      alternatives=_alternatives(look, int(look["slots"][place])),
    )
    for place, token in enumerate(tokens)
  )
  return RoundTrace(width, nodes, emitted)


def _fate(slot: int, parent: int, kept: list[int], path: list[int]) -> Fate:
  if slot in path:
    return "accepted"
  if slot in kept:
    return "cut"
  return "refused" if parent in kept else "unreached"


def _alternatives(look: HostLook, slot: int) -> tuple[tuple[int, float], ...]:
  pairs = zip(look["top"][slot], look["p_top"][slot], strict=True)
  return tuple((int(token), float(p)) for token, p in pairs if p > 0)
