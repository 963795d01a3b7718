"""Recursive rejection: exact by enumeration, and the program as enumerated."""

import dataclasses
import itertools

import jax.numpy as jnp
import numpy as np
import pytest

from specjax import sampling, trees
from specjax.acceptance import ExactMatch, Recursive, Rejection
from specjax.theory import siblings as closed
from specjax.types import Proposal
from tests import forest_rows, forests
from tests.forest_rows import (
  BY_BRANCH,
  BY_DEPTH,
  NODES,
  ROWS,
  SIZE,
  STAR,
  V,
  drafts,
  numbers,
)

KINDS = ("iid", "without_replacement", "point")
RULE = Recursive()
PRINTED = {
  "iid": (0.7, 0.79, 0.853, 0.5714, 0.6803, 0.7259, 0.7651),
  "without_replacement": (0.7, 0.925, 1.0, 0.5714, 0.7019, 0.7845, 0.8495),
  "point": (0.3, 0.9, 1.0, 0.0476, 0.1429, 0.2857, 0.4762),
  "naive": (0.37, 0.577, 0.7021, 0.127, 0.2328, 0.3216, 0.3967),
}
CLOSED = {
  "iid": closed.recursive_acceptance,
  "without_replacement": closed.distinct_acceptance,
  "point": closed.top_acceptance,
  "naive": closed.naive_acceptance,
}


@pytest.mark.parametrize("parents", [BY_DEPTH[:4], BY_BRANCH[:4]])
@pytest.mark.parametrize("siblings", KINDS)
def test_the_law_over_all_drafts_and_all_ends_is_the_targets(siblings, parents):
  """Of the walk in numpy, which the next test holds the program to."""
  p, q = forest_rows.tables(7)
  said = np.asarray([*itertools.product((0,), *(range(SIZE),) * len(parents))])
  batch = len(said)
  forest = forests.Forest(
    parents=np.tile(parents, (batch, 1)),
    tokens=said[:, 1:],
    count=np.full((batch,), len(parents)),
    p=p[said],
    q=q[said[:, parents]],
    siblings=siblings,
  )
  total, weight = np.zeros((SIZE,) * 3), 0.0
  for row in range(batch):
    chance = _chance(forest, row)
    weight += chance
    for tests, slot, law in forests.outcomes(forest, row) if chance else ():
      reach = np.prod([c if kept else 1 - c for _, c, kept in tests])
      text = said[row][forests.path(parents, slot)[1:]]
      for _ in range(2 - len(text)):
        law = law[..., None] * p
      total[tuple(text)] += chance * reach * law
  assert weight == pytest.approx(1.0)
  np.testing.assert_allclose(total, forests.joint(p, 3), atol=1e-12)


def _chance(forest, row) -> float:
  """That the row's tokens are drawn."""
  chance = 1.0
  for node, token in enumerate(forest.tokens[row]):
    law = forest.q[row, node].copy()
    parents = forest.parents[row]
    before = forest.tokens[row, :node][parents[:node] == parents[node]]
    if forest.siblings == "point":
      law = np.eye(SIZE)[np.argsort(-law, kind="stable")[len(before)]]
    elif forest.siblings == "without_replacement":
      law[before] = 0
      law = law if law.any() else np.ones(SIZE)
    chance *= law[token] / law.sum()
  return chance


@pytest.mark.parametrize("siblings", KINDS)
def test_every_verdict_is_that_of_the_walk_with_the_same_numbers(siblings):
  """Node i is tested by number i of ACCEPT, and no other tests it; the extra
  token is drawn by the number of its depth."""
  forest, verdict = drafts(siblings), forest_rows.judged(siblings, RULE)
  index = np.tile(np.arange(NODES), (ROWS, 1))
  u = numbers(sampling.Purpose.ACCEPT, index)
  recover = numbers(sampling.Purpose.RECOVER, np.tile(np.arange(3), (ROWS, 1)))
  seen = set()
  for row in range(60 * len(forest_rows.GROUPS)):
    ends = [
      (slot, law)
      for tests, slot, law in forests.outcomes(forest, row)
      if all((u[row, i] < chance) == kept for i, chance, kept in tests)
    ]
    ((slot, law),) = ends
    wanted = forests.path(forest.parents[row], slot)
    accepted = len(wanted) - 1
    aim = recover[row, accepted]
    assert verdict.slots[row].tolist() == (wanted + [slot] * 2)[:3]
    assert verdict.accepted[row] == accepted
    assert verdict.next_token[row] == (law.cumsum() <= aim * law.sum()).sum()
    seen.add(slot)
  assert seen == set(range(NODES + 1))


@pytest.mark.parametrize("siblings", KINDS)
def test_three_tokens_have_the_targets_law_whatever_the_order(siblings):
  forest_rows.assert_laws(siblings, RULE)
  accepted = forest_rows.judged(siblings, RULE).accepted
  most = {
    name: accepted[forest_rows.GROUP == i]
    for i, name in enumerate(forest_rows.LEVELS)
  }
  assert not most["nothing drafted"].any()
  if siblings != "point":
    assert (most["equal"] == 2).all()


@pytest.mark.parametrize("column", PRINTED)
def test_as_many_are_accepted_at_a_position_as_the_closed_form_says(column):
  if column == "naive":
    verdict = forest_rows.judged("iid", ExactMatch())
  else:
    verdict = forest_rows.judged(column, RULE)
  forest_rows.assert_accepted(verdict, CLOSED[column], PRINTED[column])


def test_a_node_is_judged_by_its_own_number_whatever_the_others_are():
  """Those before it are refused, are dead ends, or are not on its way."""
  tokens = np.tile([1, 1, 1, 2, 2, 2], (ROWS, 1))
  p = np.tile([0.4, 0.0, 0.6, 0, 0, 0], (ROWS, NODES + 1, 1))
  number = numbers(sampling.Purpose.ACCEPT, np.full((ROWS, 1), 3))[:, 0]
  for parents in (STAR, (0, 1, 2, 0, 4, 4), (0, 0, 1, 0, 1, 2)):
    forest = forests.Forest(
      parents=np.tile(parents, (ROWS, 1)),
      tokens=tokens,
      count=np.full((ROWS,), 4),
      p=p,
      q=p[:, 1:],
      siblings="point",
    )
    verdict = forest_rows.judge(forest, RULE)
    kept = verdict.slots[:, 1] == 4
    assert (kept == (number < np.float32(0.6))).all()
    assert (verdict.next_token[~kept] == 0).all()


def test_equal_siblings_that_are_drawn_are_judged_each_and_point_masses_once():
  """p = (1/2, 1/2), q all on token 0, which is proposed twice."""
  tokens = np.zeros((ROWS, NODES), int)
  p = np.tile([0.5, 0.5, 0, 0, 0, 0], (ROWS, NODES + 1, 1))
  q = np.tile(np.eye(V)[0], (ROWS, NODES, 1))
  for siblings in KINDS:
    forest = forests.Forest(
      parents=np.tile(STAR, (ROWS, 1)),
      tokens=tokens,
      count=np.full((ROWS,), 2),
      p=p,
      q=q,
      siblings=siblings,
    )
    verdict = forest_rows.judge(forest, RULE)
    number = numbers(sampling.Purpose.ACCEPT, np.zeros((ROWS, 1), int))[:, 0]
    kept = verdict.accepted == 1
    assert (kept == (number < 0.5)).all()
    assert (verdict.slots[kept] == (0, 1, 1)).all()
    assert (verdict.next_token[~kept] == 1).all()


@pytest.mark.parametrize("siblings", ["without_replacement", "point"])
def test_a_narrower_pass_gives_the_same_verdict(siblings):
  """Of the rows whose nodes it holds."""
  proposal = drafts(siblings).proposal(depth=2, riders=0)
  narrow = dataclasses.replace(proposal, nodes=trees.narrow(proposal.nodes, 5))
  if proposal.q_row is not None:
    narrow = dataclasses.replace(narrow, q_row=proposal.q_row[:, :4])
  verdict = forests.judge(
    RULE,
    narrow,
    forests.law(drafts(siblings).p[:, :5]),
    forests.streams(ROWS, 3),
  )
  held, wide = drafts(siblings).count <= 4, forest_rows.judged(siblings, RULE)
  assert held.sum() > ROWS // 2
  assert forests.same(verdict, wide, held)


@pytest.mark.parametrize("siblings", ["iid", "point"])
def test_on_a_chain_it_is_rejection(siblings):
  """With filters, greedy rows, ragged counts, laws an ulp apart: to the bit."""
  rng, batch, size = np.random.default_rng(4), 4096, 4
  settings = sampling.make_sampling(
    batch,
    temperature=rng.choice([0.0, 0.7, 1.0], batch),
    top_k=rng.integers(0, 4, batch),
  )
  p = rng.normal(0, 1.5, (batch, size + 1, V)).astype(np.float32)
  q = p[:, :size] + rng.normal(0, 1, (batch, size, V)).astype(np.float32)
  q[::7] = np.nextafter(p[::7, :size], np.float32(9))
  p[::5, :, 3] = -np.inf
  p, q = (sampling.make_law(jnp.asarray(x), settings) for x in (p, q))
  u = jnp.asarray(rng.random((batch, size)), jnp.float32)
  count = jnp.asarray(rng.integers(0, size + 1, batch))
  proposal = Proposal(trees.chain(sampling.draw(q, u), count))
  if siblings == "iid":
    proposal = dataclasses.replace(proposal, q=q, q_row=jnp.arange(size)[None])
  keys = forests.streams(batch, 6)
  wanted = forests.judge(Rejection(), proposal, p, keys)
  proposal = dataclasses.replace(proposal, siblings=siblings)
  got = forests.judge(RULE, proposal, p, keys)
  assert forests.same(got, wanted)
  assert set(np.unique(got.accepted)) == set(range(size + 1))
