"""Masks, depths and paths of small trees, written out."""

import jax.numpy as jnp
import numpy as np
import pytest

from specjax import trees
from specjax.types import Nodes

#      0
#     / \      parents of slots 1..4: 0 0 1 1
#    1   2
#   / \
#  3   4
PARENTS = jnp.asarray([[0, 0, 1, 1]])


def tree(count, rider_count=0, num_judged=4):
  return Nodes(
    tokens=jnp.asarray([[5, 6, 7, 8]]),
    parents=PARENTS,
    count=jnp.asarray([count]),
    rider_count=jnp.asarray([rider_count]),
    num_judged=num_judged,
    max_depth=2,
  )


def test_ancestry_of_a_tree():
  assert trees.ancestry(PARENTS, 2)[0].astype(int).tolist() == [
    [1, 0, 0, 0, 0],
    [1, 1, 0, 0, 0],
    [1, 0, 1, 0, 0],
    [1, 1, 0, 1, 0],
    [1, 1, 0, 0, 1],
  ]
  assert trees.depths(trees.ancestry(PARENTS, 2)).tolist() == [[0, 1, 1, 2, 2]]


@pytest.mark.parametrize("size", [0, 1, 2, 5, 8, 13, 129, 260])
def test_ancestry_of_a_chain_is_lower_triangular(size):
  nodes = trees.chain(jnp.zeros((3, size), jnp.int32), jnp.zeros(3, jnp.int32))
  mask = trees.ancestry(nodes.parents, nodes.max_depth)
  np.testing.assert_array_equal(mask[0], np.tril(np.ones((size + 1,) * 2)) > 0)


def test_ancestry_of_random_forests():
  rng = np.random.default_rng(0)
  parents = np.stack(
    [[rng.integers(0, i + 1) for i in range(12)] for _ in range(20)]
  )
  mask = np.asarray(trees.ancestry(jnp.asarray(parents), 12))
  for row, got in zip(parents, mask, strict=True):
    for slot in range(13):
      line, at = {slot}, slot
      while at:
        at = row[at - 1]
        line.add(at)
      assert set(np.flatnonzero(got[slot])) == line


def test_paths_repeat_their_last_slot():
  mask = trees.ancestry(PARENTS, 2)
  slots = jnp.asarray([4, 2, 0])
  paths = trees.path_to(jnp.repeat(mask, 3, 0), slots, 3)
  assert paths.tolist() == [[0, 1, 4], [0, 2, 2], [0, 0, 0]]


def test_live_nodes_and_widths():
  assert trees.live(tree(3)).tolist() == [[True, True, True, False]]
  riding = tree(1, rider_count=1, num_judged=2)
  assert trees.live(riding).tolist() == [[True, False, True, False]]
  assert trees.width_needed(tree(3)).tolist() == [4]
  assert trees.width_needed(tree(0)).tolist() == [1]
  assert trees.width_needed(riding).tolist() == [4]


def test_narrowing_keeps_the_first_nodes():
  nodes = trees.narrow(tree(4), 3)
  assert nodes.tokens.tolist() == [[5, 6]]
  assert (nodes.num_judged, nodes.max_depth) == (2, 2)
  assert nodes.count.tolist() == [2]
  assert trees.narrow(tree(4), 1).tokens.shape == (1, 0)


def test_slots_stand_at_their_depth():
  slots = trees.make_slots(jnp.asarray([9]), jnp.asarray([11]), tree(4))
  assert slots.tokens.tolist() == [[9, 5, 6, 7, 8]]
  assert slots.positions.tolist() == [[10, 11, 11, 12, 12]]
