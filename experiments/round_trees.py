"""What each round proposed and what was kept of it, as trees in a terminal."""

from collections.abc import Callable, Iterator

from rich.text import Text
from rich.tree import Tree

from specjax.api.traces import EmittedTrace, NodeTrace, RoundTrace

_MARKS = {"accepted": "✓", "refused": "✗", "unreached": "·", "cut": "✂"}
_STYLES = {
  "accepted": "green",
  "refused": "red",
  "unreached": "dim",
  "cut": "yellow",
}
LEGEND = "✓ kept  ✗ refused  · below one that was not kept  ✂ kept, then cut"


def draw(
  rounds: tuple[RoundTrace, ...], last: int, spell: Callable[[int], str]
) -> Iterator[Tree]:
  """A tree a round.

      round 2: 2 of 6 nodes kept, 3 tokens
      " the"                  the last token, whose children are proposed
      ├── " dog" ✗ p 0.07
      └── " cat" ✓ p 0.81
          └── → " on" p 0.92  the target's own, below the last that is kept

  Args:
    rounds: of one row.
    last: id of the prompt's last token.
    spell: the text of a token.
  """
  for number, trace in enumerate(rounds, 1):
    yield _tree(number, trace, last, spell)
    if trace.emitted:
      last = trace.emitted[-1].token


def _tree(number: int, trace: RoundTrace, last: int, spell) -> Tree:
  fates = [node.fate for node in trace.nodes]
  kept = fates.count("accepted")
  head = f"round {number}: "
  if trace.nodes:
    head += f"{kept} of {len(trace.nodes)} nodes kept, "
  tokens = len(trace.emitted)
  head += f"{tokens} token" + ("" if tokens == 1 else "s")
  tree = Tree(Text(head, style="bold"), hide_root=False)
  places = {0: tree.add(Text(_quoted(spell(last))))}
  for node in trace.nodes:
    places[node.slot] = places[node.parent].add(_node(node, spell))
  under = 0
  for token in trace.emitted:
    if token.slot is None:
      places[under].add(_own(token, spell))
    else:
      under = token.slot
  return tree


def _node(node: NodeTrace, spell) -> Text:
  text = f"{_quoted(spell(node.token))} {_MARKS[node.fate]} p {node.p:.2f}"
  if node.q is not None:
    text += f" q {node.q:.2f}"
  return Text(text, style=_STYLES[node.fate])


def _own(token: EmittedTrace, spell) -> Text:
  return Text(f"→ {_quoted(spell(token.token))} p {token.p:.2f}", style="cyan")


def _quoted(text: str) -> str:
  return '"' + text.replace("\n", "⏎") + '"'
