"""Candidate trees of heads: which token a node has, and the battery."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specjax import topologies
from specjax.acceptance import ExactMatch, Recursive
from specjax.drafters import HeadTree
from specjax.models.heads import Medusa
from specjax.testing import (
  TableHeads,
  cases,
  check_case,
  heads_net,
  heads_weights,
  medusa_tree_case,
  runs,
)
from specjax.types import Params, Streams

NET = TableHeads(11, 3)


def test_a_node_has_the_token_of_its_rank_by_the_head_of_its_depth():
  model, target = cases.net_world()
  ids = jnp.asarray([0, 2, 3, 8, 9, 15])
  net = heads_net(model, Medusa)
  small = dataclasses.replace(net, vocab_size=len(ids))
  draft = heads_weights(model, target)
  for k in range(net.num_heads):
    one = draft[f"heads_{k}"]
    if "head" in one:
      one["head"] = {"kernel": one["head"]["kernel"][ids]}
  if "head" in draft:
    draft["head"] = {"kernel": draft["head"]["kernel"][ids]}
  # Far apart: each head has likeliest tokens of its own.
  leaves, form = jax.tree.flatten(draft)
  keys = jax.random.split(jax.random.key(3), len(leaves))
  draft = jax.tree.unflatten(
    form,
    [
      x + jax.random.normal(key, x.shape)
      for x, key in zip(leaves, keys, strict=True)
    ],
  )
  draft["token_ids"] = ids
  tree = topologies.named("expand:3x2x2")
  drafter = HeadTree(small, tree, model.vocab_size)
  params = Params(target, draft)
  engine = runs.make_engine(model, drafter, Recursive())
  prompts = [[1, 2, 3, 4], [7, 2], [5]]
  hot = cases.Setting(temperature=2.0)
  rows = runs.start(engine, params, prompts, new=8, size=16, settings=hot)
  keys = Streams(rows.key, rows.length)
  budget = jnp.asarray([3, 2, 3])
  proposal, _ = drafter.propose(params, rows.draft, rows, budget, keys)
  assert proposal.nodes.count.tolist() == [3 + 6 + 12, 3 + 6, 0]
  assert proposal.nodes.parents.tolist() == [list(tree.parents)]
  assert proposal.q is None and proposal.nodes.tokens.dtype == jnp.int32
  logits = np.asarray(small(draft, rows.draft.hidden, 3))
  order = np.asarray(ids)[np.argsort(-logits, -1, stable=True)]
  assert (order[:2, 0] != order[:2, 1]).any(-1).all()
  for node, (depth, rank) in enumerate(
    zip(tree.depths, tree.ranks, strict=True)
  ):
    wanted = order[:, depth - 1, rank]
    np.testing.assert_array_equal(proposal.nodes.tokens[:2, node], wanted[:2])


@pytest.mark.parametrize(
  "rule, check",
  [
    (Recursive(), "greedy_nets"),
    (Recursive(), "limits"),
    pytest.param(Recursive(), "joint", marks=pytest.mark.runs_long),
    (Recursive(), "fewest_rounds"),
    (ExactMatch(), "ragged_nets"),
  ],
  ids=lambda x: getattr(x, "name", x),
)
def test_battery(rule, check):
  check_case(medusa_tree_case(rule), check)


def test_a_tree_that_is_deeper_than_there_are_heads_is_refused():
  with pytest.raises(
    ValueError, match="8 heads cannot draft a tree of depth 9"
  ):
    HeadTree(NET, topologies.chain(9))
  assert HeadTree(NET).num_nodes == 63
  assert HeadTree(NET, topologies.chain(3)).widths == (1, 4)
