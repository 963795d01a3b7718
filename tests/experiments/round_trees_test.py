"""The drawing of rounds: what stands where, and with what mark."""

from rich.console import Console

from experiments import round_trees
from specjax.api.traces import EmittedTrace, NodeTrace, RoundTrace


def _drawn(*rounds):
  console = Console(width=60, no_color=True)
  with console.capture() as capture:
    for tree in round_trees.draw(rounds, 7, lambda token: f"t{token}"):
      console.print(tree)
  return [line.rstrip() for line in capture.get().splitlines()]


def test_nodes_hang_from_their_parents_and_the_own_token_from_the_last_kept():
  nodes = (
    NodeTrace(1, 0, 11, 0.25, None, "refused"),
    NodeTrace(2, 0, 12, 0.5, 0.125, "accepted"),
    NodeTrace(3, 1, 13, 0.75, None, "unreached"),
  )
  emitted = (
    EmittedTrace(12, 2, 0.5, ()),
    EmittedTrace(14, None, 0.0, ()),
  )
  alone = RoundTrace(1, (), (EmittedTrace(15, None, 1.0, ()),))
  assert _drawn(RoundTrace(4, nodes, emitted), alone) == [
    "round 1: 1 of 3 nodes kept, 2 tokens",
    '└── "t7"',
    '    ├── "t11" ✗ p 0.25',
    '    │   └── "t13" · p 0.75',
    '    └── "t12" ✓ p 0.50 q 0.12',
    '        └── → "t14" p 0.00',
    "round 2: 1 token",
    '└── "t14"',
    '    └── → "t15" p 1.00',
  ]


def test_what_was_kept_and_then_cut_is_marked():
  node = NodeTrace(1, 0, 3, 0.5, None, "cut")
  lines = _drawn(RoundTrace(2, (node,), ()))
  assert lines == [
    "round 1: 0 of 1 nodes kept, 0 tokens",
    '└── "t7"',
    '    └── "t3" ✂ p 0.50',
  ]
