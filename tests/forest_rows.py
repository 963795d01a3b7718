"""One batch of forests that tests of rules share, so that programs are few.

Group by group of rows: trees of two levels in both orders, dead nodes, greedy
rows, and one position with K siblings whose acceptance is printed in papers.
"""

import functools

import jax.numpy as jnp
import numpy as np

from specjax import sampling
from specjax.testing.chisquare import assert_law
from tests import forests

ROWS, NODES, RIDERS, V = 1 << 16, 6, 2, 6
SIZE = 3  # tokens of the tables of two levels
BY_DEPTH = (0, 0, 0, 1, 1, 2)
BY_BRANCH = (0, 1, 1, 0, 4, 0)  # the same tree, one branch after the other
STAR = (0,) * NODES

# p, q and numbers of draws at one position.
COIN = np.asarray([0.6, 0.3, 0.1]), np.asarray([0.3, 0.6, 0.1])
STAIR = np.arange(1, 7) / 21, np.arange(6, 0, -1) / 21
POSITIONS = [(COIN, k) for k in (1, 2, 3)] + [(STAIR, k) for k in (1, 2, 3, 4)]


def tables(seed):
  """Target and draft, far apart; what the draft excludes the target does not,
  and the other way round."""
  rng = np.random.default_rng(seed)
  p, q = rng.dirichlet(np.ones(SIZE), (2, SIZE))
  p[0, 2] = q[0, 1] = q[1, 0] = 0  # q[0] has two tokens for three siblings
  return p / p.sum(1, keepdims=True), q / q.sum(1, keepdims=True)


def _wide(table):
  """With tokens that have no probability, and contexts that never come."""
  whole = np.zeros((V, V))
  whole[:, 0] = 1
  whole[: len(table), : len(table)] = table
  whole[: len(table), len(table) :] = 0
  return whole


def _most(table):
  return np.eye(V)[table.argmax(1)]


P, Q = (_wide(x) for x in tables(5))
# Of each group of rows: parents, live nodes, p, q.
LEVELS = {
  "by depth": (BY_DEPTH, 6, P, Q),
  "by branch": (BY_BRANCH, 6, P, Q),
  "dead nodes": (BY_DEPTH, 4, P, Q),
  "nothing drafted": (BY_DEPTH, 0, P, Q),
  "greedy": (BY_BRANCH, 6, _most(P), _most(Q)),
  "greedy target": (BY_DEPTH, 6, _most(P), Q),
  "draft of one token": (BY_DEPTH, 6, P, _most(Q)),
  "equal": (BY_BRANCH, 6, P, P),
}
GROUPS = [*LEVELS.values()]
for (p, q), k in POSITIONS:
  GROUPS.append((STAR, k, *(_wide(np.tile(x, (len(x), 1))) for x in (p, q))))
GROUP = np.arange(ROWS) % len(GROUPS)


@functools.cache
def drafts(siblings) -> forests.Forest:
  """Rows of all groups, drawn as declared."""
  parents, count, p, q = (
    np.asarray(x)[GROUP] for x in zip(*GROUPS, strict=True)
  )
  rng = np.random.default_rng(len(siblings))
  return forests.draw(rng, parents, count, p, q, siblings)


@functools.cache
def judged(siblings, rule) -> forests.Judged:
  """The verdict on all of them, riders present."""
  return judge(drafts(siblings), rule)


def judge(forest, rule) -> forests.Judged:
  """The verdict on other rows of the same shapes."""
  return forests.judge(
    rule,
    forest.proposal(depth=2, riders=RIDERS),
    forest.target(RIDERS),
    forests.streams(ROWS, 3),
  )


def numbers(purpose, node) -> np.ndarray:
  """Those that the rules are given: [B k]."""
  return np.asarray(
    sampling.round_uniform(forests.streams(ROWS, 3), purpose, jnp.asarray(node))
  )


def assert_laws(siblings, rule) -> None:
  """Three tokens have the target's joint law in every group of two levels.

  A right rule fails with probability 1e-5.
  """
  forest, verdict = drafts(siblings), judged(siblings, rule)
  p_table = np.asarray([group[2] for group in GROUPS])[GROUP]
  rng = np.random.default_rng(1)
  said = forests.texts(rng, forest, verdict, p_table, 3)
  for group, (what, (_, _, p, _)) in enumerate(LEVELS.items()):
    counts = forests.count_texts(said[GROUP == group], V)
    assert_law(counts, forests.joint(p, 3), what=f"{siblings}, {what}")


def assert_accepted(verdict, closed_form, printed) -> None:
  """At one position as much is accepted as printed, and as a closed form says.

  Five standard deviations: a right rule fails with probability 4e-6.
  """
  for i, ((p, q), k) in enumerate(POSITIONS):
    wanted = float(closed_form(p, q, k))
    assert abs(wanted - printed[i]) < 6e-5
    got = verdict.accepted[GROUP == len(LEVELS) + i]
    error = np.sqrt(max(wanted * (1 - wanted), 0) / len(got))
    assert abs(got.mean() - wanted) < 5 * error + 1e-6, (i, k, got.mean())
