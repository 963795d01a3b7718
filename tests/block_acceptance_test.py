"""Block verification against its closed form and its own text in numpy."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest

from specjax import sampling, trees
from specjax.acceptance import BlockVerification, Rejection
from specjax.testing.chisquare import assert_law
from specjax.theory import block, toy_language
from specjax.types import Proposal
from tests import forests

ROWS, NODES, V = 1 << 16, 3, 4  # of every program here
TOY = toy_language.laws()
COIN = tuple(
  np.pad(np.tile(law, (2, 1)), (0, 2)) + np.pad(np.eye(2), (2, 0)) * 1.0
  for law in ([1 / 3, 2 / 3], [2 / 3, 1 / 3])
)
GREEDY = tuple(np.eye(V)[table.argmax(1)] for table in TOY)
# P_1 is 1/2 at token 1, after which P_1 p and p leave other residuals.
HALF = TOY[0].copy(), TOY[1].copy()
HALF[0][:2] = (0, 0.3, 0.7, 0), (0.3, 0, 0.1, 0.6)
HALF[1][:2] = (0, 0.6, 0.4, 0), (0.14, 0.4, 0.41, 0.05)
# Of each group of rows: live nodes, p, q.
GROUPS = {
  **{f"{k} nodes": (k, *TOY) for k in range(NODES + 1)},
  "two flips": (2, *COIN),
  "half a weight": (NODES, *HALF),
  "greedy": (NODES, *GREEDY),
  "greedy target": (NODES, GREEDY[0], TOY[1]),
  "equal": (NODES, TOY[0], TOY[0]),
}
GROUP = np.arange(ROWS) % len(GROUPS)
PRINTED = {
  "1 nodes": 1.6717,
  "2 nodes": 2.2806,
  "3 nodes": 2.8250,
  "two flips": 1 + 11 / 9,
}


@functools.cache
def drafts(siblings) -> forests.Forest:
  columns = zip(*GROUPS.values(), strict=True)
  count, p, q = (np.asarray(column)[GROUP] for column in columns)
  parents = np.tile(np.arange(NODES), (ROWS, 1))
  rng = np.random.default_rng(8)
  return forests.draw(rng, parents, count, p, q, siblings)


@functools.cache
def judged(siblings, rule) -> forests.Judged:
  forest = drafts(siblings)
  keys = forests.streams(ROWS, 3)
  return forests.judge(rule, forest.proposal(NODES), forest.target(), keys)


def _number_of(purpose, node):
  keys = forests.streams(ROWS, 3)
  return np.asarray(sampling.round_uniform(keys, purpose, jnp.asarray(node)))


def _as_told(forest, row, u):
  """(tokens kept, law of the extra token): the paper's algorithm, line by line.

  Point masses are laws q like any other.
  """
  p, count, tokens = forest.p[row], forest.count[row], forest.tokens[row]
  q = forest.q[row]
  if forest.siblings == "point":
    q = np.eye(V)[tokens]
  weights, kept = [1.0], 0
  for i in range(1, count + 1):
    ratio = p[i - 1, tokens[i - 1]] / q[i - 1, tokens[i - 1]]
    weight = min(1.0, weights[-1] * ratio)
    weights.append(weight)
    threshold = weight
    if i < count:
      left = np.maximum(weight * p[i] - q[i], 0).sum()
      below = left + 1 - weight
      threshold = left / below if below > 0 else 1.0
    if u[i - 1] < threshold:
      kept = i
  law = p[kept]
  if kept < count:
    law = np.maximum(weights[kept] * law - q[kept], 0)
  return kept, law


@pytest.mark.parametrize("siblings", ["chain", "point"])
def test_every_verdict_is_the_algorithms_with_the_same_numbers(siblings):
  forest = drafts(siblings)
  verdict = judged(siblings, BlockVerification())
  u = _number_of(sampling.Purpose.ACCEPT, np.tile(range(NODES), (ROWS, 1)))
  again = np.tile(range(NODES + 1), (ROWS, 1))
  recover = _number_of(sampling.Purpose.RECOVER, again)
  for row in range(100 * len(GROUPS)):
    kept, law = _as_told(forest, row, u[row])
    if not law.any():
      continue  # equal laws in float64: never refused but for rounding
    aim = recover[row, kept] * law.sum()
    assert verdict.accepted[row] == kept
    assert verdict.slots[row].tolist() == [min(i, kept) for i in range(4)]
    assert verdict.next_token[row] == (law.cumsum() <= aim).sum()


@pytest.mark.parametrize("siblings", ["chain", "point"])
def test_tokens_have_the_targets_joint_law(siblings):
  """A right rule fails one of these with probability 2e-5."""
  forest = drafts(siblings)
  verdict = judged(siblings, BlockVerification())
  p_table = np.asarray([p for _, p, _ in GROUPS.values()])[GROUP]
  said = forests.texts(
    np.random.default_rng(2), forest, verdict, p_table, NODES + 1
  )
  for i, (what, (_, p, _)) in enumerate(GROUPS.items()):
    counts = forests.count_texts(said[GROUP == i], V)
    assert_law(counts, forests.joint(p, NODES + 1), what=f"{siblings}, {what}")


def test_as_many_tokens_as_the_closed_form_says_and_more_than_rejection():
  """Five standard deviations: a right rule fails with probability 1e-5."""
  blocks = judged("chain", BlockVerification()).accepted
  tokenwise = judged("chain", Rejection()).accepted
  for i, (what, (count, p, q)) in enumerate(GROUPS.items()):
    got = blocks[GROUP == i]
    wanted = float(block.block_rule_tokens(p, q, 0, count))
    if what in PRINTED:
      assert wanted == pytest.approx(PRINTED[what], abs=6e-5)
    error = got.std() / np.sqrt(len(got))
    assert 1 + got.mean() == pytest.approx(wanted, abs=5 * error + 1e-6), what
    if what in ("3 nodes", "two flips"):  # by 0.20 and 0.11 tokens
      assert got.mean() > tokenwise[GROUP == i].mean() + 0.05
    if what.startswith("greedy"):
      assert (got == tokenwise[GROUP == i]).all()
  assert (blocks[GROUP == list(GROUPS).index("equal")] == NODES).all()


def test_filters_laws_an_ulp_apart_and_no_law_at_all_give_real_tokens():
  rng, batch = np.random.default_rng(4), 4096
  settings = sampling.make_sampling(
    batch,
    temperature=rng.choice([0.0, 1e-8, 0.7], batch),
    top_k=rng.integers(0, 3, batch),
  )
  p = rng.normal(0, 1.5, (batch, NODES + 1, V)).astype(np.float32)
  q = np.nextafter(p[:, :NODES], np.float32(9))
  q[::2] += rng.normal(0, 2, q[::2].shape).astype(np.float32)
  q[::39, :, 1] = -np.inf
  p[::3, :, 1], q[::5, :, 2], p[::7, 1] = -np.inf, np.nan, -np.inf
  p, q = (sampling.make_law(jnp.asarray(x), settings) for x in (p, q))
  u = jnp.asarray(rng.random((batch, NODES)), jnp.float32)
  count = jnp.asarray(rng.integers(0, NODES + 1, batch))
  # Every 39th row proposes what neither law has, as no drafter should.
  tokens = sampling.draw(q, u).at[::39].set(1)
  nodes = trees.chain(tokens, count)
  proposal = Proposal(nodes, q, jnp.arange(NODES, dtype=jnp.int32)[None])
  keys = forests.streams(batch, 9)
  got = forests.judge(BlockVerification(), proposal, p, keys)
  emitted = np.pad(np.asarray(nodes.tokens), ((0, 0), (0, 1)))
  row = np.arange(batch)
  emitted[row, got.accepted] = got.next_token
  chance = np.asarray(
    sampling.prob(
      p, jnp.tile(jnp.arange(NODES + 1), (batch, 1)), jnp.asarray(emitted)
    )
  )
  said = np.arange(NODES + 1)[None] <= got.accepted[:, None]
  assert (chance[said] > 0).all()
  assert (got.accepted <= np.asarray(count)).all()
  close = (row % 2 == 1) & (row % 3 > 0) & (row % 5 > 0) & (row % 7 > 0)
  close &= np.asarray(settings.temperature) == np.float32(0.7)
  assert (got.accepted == count)[close].mean() > 0.999
