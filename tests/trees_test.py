"""Masks, depths and paths of small trees, written out."""

import dataclasses

import jax
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


def test_how_far_a_tree_goes_with_a_text():
  #  5 6 7 8 in slots 1 to 4: the paths 5, 6, 5 7, 5 8
  for text, wanted in (
    ([5, 8], [2, 1]),
    ([5, 7], [2, 2]),
    ([6, 7], [1, 1]),
    ([7, 8], [0, 0]),
  ):
    got = [trees.depth_along(tree(n), jnp.asarray([text]))[0] for n in (4, 3)]
    assert got == wanted


SIZE, JUDGED, DEEP = 14, 11, 5

merge = jax.jit(trees.merge_siblings)


def forest(rng):
  """A random row: (tokens, parents, count, riders, there), few tokens."""
  tokens, parents, depth = [], [], [0]
  for i in range(SIZE):
    slots = range(i + 1) if i >= JUDGED else range(min(i + 1, JUDGED))
    fit = [slot for slot in slots if depth[slot] < DEEP]
    parents.append(int(rng.choice(fit)))
    depth.append(depth[parents[-1]] + 1)
    tokens.append(int(rng.integers(0, 3)))
  count, riders = rng.integers(0, JUDGED + 1), rng.integers(0, 4)
  there = rng.random(SIZE) < 0.8
  return tokens, parents, int(count), int(riders), there.tolist()


def trie(tokens, parents, taken, budget):
  """{path: nodes} in the order of first ones, by dictionaries alone."""
  paths, found = {0: ()}, {}
  for node in range(JUDGED):
    above = paths.get(parents[node])
    if not taken[node] or above is None or len(above) >= budget:
      continue
    path = paths[node + 1] = (*above, tokens[node])
    found.setdefault(path, []).append(node)
  return found


def packed(rows):
  tokens, parents, count, riders, there = zip(*rows, strict=True)
  nodes = Nodes(
    tokens=jnp.asarray(tokens),
    parents=jnp.asarray(parents),
    count=jnp.asarray(count),
    rider_count=jnp.zeros(len(rows), jnp.int32),
    num_judged=JUDGED,
    max_depth=DEEP,
  )
  return nodes, jnp.asarray(there), jnp.asarray(riders)


def check_trie(rows, merged, taken, budget):
  count = np.asarray(merged.nodes.count)
  tokens, parents, slots, first, copies = (
    np.asarray(x)[:, :JUDGED].tolist()
    for x in (
      merged.nodes.tokens,
      merged.nodes.parents,
      merged.slots[:, 1:],
      merged.first,
      merged.copies,
    )
  )
  assert not np.asarray(merged.slots[:, 0]).any()
  for b, row in enumerate(rows):
    wanted = trie(row[0], row[1], taken[b], budget[b])
    slot_of = {(): 0} | {path: i for i, path in enumerate(wanted, 1)}
    size = count[b]
    assert size == len(wanted)
    dead = [0] * (JUDGED - size)
    assert tokens[b] == [path[-1] for path in wanted] + dead
    assert parents[b] == [slot_of[path[:-1]] for path in wanted] + dead
    assert copies[b] == [len(same) for same in wanted.values()] + dead
    assert first[b][:size] == [same[0] for same in wanted.values()]
    moved = [-1] * JUDGED
    for path, same in wanted.items():
      for node in same:
        moved[node] = slot_of[path]
    assert slots[b] == moved


def test_equal_siblings_merge_into_a_trie():
  rng = np.random.default_rng(0)
  rows = [forest(rng) for _ in range(200)]
  nodes, there, _ = packed(rows)
  budget = rng.integers(0, DEEP + 1, len(rows))
  live, some = np.asarray(trees.live(nodes)), np.asarray(there)
  assert not live.any(1).all()
  check_trie(rows, merge(nodes), live, [DEEP] * len(rows))
  check_trie(rows, merge(nodes, there, jnp.asarray(budget)), some, budget)


def test_riders_keep_their_places_and_follow_what_they_hang_from():
  rng = np.random.default_rng(1)
  rows = [forest(rng) for _ in range(100)]
  nodes, _, riders = packed(rows)
  full = jnp.full_like(nodes.count, JUDGED)
  nodes = dataclasses.replace(nodes, count=full, rider_count=riders)
  merged = merge(nodes)
  np.testing.assert_array_equal(
    merged.nodes.tokens[:, JUDGED:], nodes.tokens[:, JUDGED:]
  )
  np.testing.assert_array_equal(merged.nodes.rider_count, riders)
  shared = merge(nodes, jnp.ones(nodes.tokens.shape, bool))
  np.testing.assert_array_equal(
    shared.nodes.parents[:, JUDGED:],
    jnp.take_along_axis(shared.slots, nodes.parents[:, JUDGED:], 1),
  )
  np.testing.assert_array_equal(
    shared.slots[:, JUDGED + 1 :],
    jnp.broadcast_to(jnp.arange(JUDGED + 1, SIZE + 1), (100, SIZE - JUDGED)),
  )


def test_a_tree_of_one_shape_for_all_rows_merges_a_row_at_a_time():
  nodes = Nodes(
    tokens=jnp.asarray([[5, 5, 7, 7], [5, 6, 7, 7]]),
    parents=jnp.asarray([[0, 0, 1, 2]]),
    count=jnp.asarray([4, 4]),
    rider_count=jnp.zeros(2, jnp.int32),
    num_judged=4,
    max_depth=2,
  )
  merged = merge(nodes)
  assert merged.nodes.count.tolist() == [2, 4]
  assert merged.nodes.parents.tolist() == [[0, 1, 0, 0], [0, 0, 1, 2]]
  assert merged.nodes.tokens.tolist() == [[5, 7, 0, 0], [5, 6, 7, 7]]
  assert merged.slots.tolist() == [[0, 1, 1, 2, 2], [0, 1, 2, 3, 4]]
  none = trees.chain(jnp.zeros((2, 0), jnp.int32), jnp.zeros(2, jnp.int32))
  assert merge(none).slots.tolist() == [[0], [0]]
