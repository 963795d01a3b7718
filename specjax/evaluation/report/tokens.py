"""Which tokens a draft gets wrong, counted over the traces of a run."""

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

from specjax.evaluation import token_classes

Trace = dict[str, Any]  # a line of traces.jsonl


@dataclasses.dataclass(frozen=True)
class Refused:
  """One token that was refused.

  Attributes:
    token, text: its id and its text.
    refused, judged: times it was refused, and times its parent was kept.
    mean_p, mean_q: of the target and of the draft over the refusals; a point
      mass counts as q = 1.
  """

  token: int
  text: str
  refused: int
  judged: int
  mean_p: float
  mean_q: float


@dataclasses.dataclass(frozen=True)
class ClassCount:
  """Proposals of one class of tokens.

  Attributes:
    name: one of `token_classes.CLASSES`.
    drafted: proposals, those that were never judged included.
    accepted: kept and emitted.
    refused: not kept although the parent was.
  """

  name: str
  drafted: int
  accepted: int
  refused: int

  @property
  def judged(self) -> int:
    return self.accepted + self.refused

  @property
  def acceptance(self) -> float | None:
    """Accepted over judged: conditional on the parent; None where none was."""
    return self.accepted / self.judged if self.judged else None


def most_refused(traces: Iterable[Trace], top: int = 20) -> list[Refused]:
  """The tokens refused most often, ties by id.

  A proposal that stood behind a refused one, or was cut at a stop, was not
  judged and does not count.
  """
  refused: dict[int, list[dict[str, Any]]] = {}
  accepted: dict[int, int] = {}
  for node, _ in _nodes(traces):
    if node["fate"] == "refused":
      refused.setdefault(node["token"], []).append(node)
    elif node["fate"] == "accepted":
      accepted[node["token"]] = accepted.get(node["token"], 0) + 1
  found = [
    Refused(
      token=token,
      text=nodes[0]["text"],
      refused=len(nodes),
      judged=len(nodes) + accepted.get(token, 0),
      mean_p=sum(node["p"] for node in nodes) / len(nodes),
      mean_q=sum(_q(node) for node in nodes) / len(nodes),
    )
    for token, nodes in refused.items()
  ]
  return sorted(found, key=lambda r: (-r.refused, r.token))[:top]


def by_class(traces: Iterable[Trace]) -> list[ClassCount]:
  """Counts of every class that was proposed, in the order of `CLASSES`."""
  fates: dict[str, list[str]] = {}
  for node, before in _nodes(traces):
    name = token_classes.classify(node["text"], before)
    fates.setdefault(name, []).append(node["fate"])
  return [
    ClassCount(
      name,
      drafted=len(fates[name]),
      accepted=fates[name].count("accepted"),
      refused=fates[name].count("refused"),
    )
    for name in token_classes.CLASSES
    if name in fates
  ]


def _nodes(traces: Iterable[Trace]) -> Iterator[tuple[dict[str, Any], str]]:
  """Every proposal, and the text of the token that it follows."""
  for trace in traces:
    last = ""
    for entry in trace["rounds"]:
      texts = {0: last, **{n["slot"]: n["text"] for n in entry["nodes"]}}
      for node in entry["nodes"]:
        yield node, texts.get(node["parent"], "")
      if entry["emitted"]:
        last = entry["emitted"][-1]["text"]


def _q(node: dict[str, Any]) -> float:
  return 1.0 if node["q"] is None else float(node["q"])
