"""Sequoia's optimum against published values, enumeration and chains."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest

from specjax.theory import siblings, speedup, trees

ACCEPTANCE = np.asarray([0.6, 0.15, 0.07, 0.04, 0.03, 0.02, 0.015, 0.01])


def test_printed_optima():
  sizes = np.asarray([2, 4, 8, 16, 32, 64])
  best = trees.most_tokens(ACCEPTANCE, 64, 63)[-1]
  np.testing.assert_allclose(
    best[sizes], [1.600, 2.176, 2.636, 3.076, 3.509, 3.946], atol=6e-4
  )
  chain = trees.most_tokens(ACCEPTANCE[:1], 64, 63)[-1]
  np.testing.assert_allclose(
    chain[sizes], [1.600, 2.176, 2.458, 2.499, 2.500, 2.500], atol=6e-4
  )


def _best(p, size, depth):
  """The most tokens over all trees, by recursion over the last child."""

  @functools.cache
  def of_tree(n, d):
    return max((of_children(n, d, b) for b in range(len(p) + 1)), default=0.0)

  @functools.cache
  def of_children(n, d, b):
    if n < 1 + b or (b and not d):
      return -np.inf
    if not b:
      return 1.0
    return max(
      of_children(n - m, d, b - 1) + p[b - 1] * of_tree(m, d - 1)
      for m in range(1, n)
    )

  return of_tree(size, depth)


@pytest.mark.parametrize(
  "p", [(0.5, 0.3, 0.1), (0.2, 0.5), (0.0, 0.6), (0.9,), (0.3, 0.3, 0.3)]
)
def test_depth_limits_against_recursion(p):
  ours = trees.most_tokens(np.asarray(p), 9, 4)
  for depth in range(5):
    for size in range(1, 10):
      expected = _best(p, size, depth)
      assert float(ours[depth, size]) == pytest.approx(expected, rel=1e-6)
  assert (np.asarray(ours[:, 0]) == 0).all()


@pytest.mark.parametrize("size, depth", [(1, 3), (16, None), (30, 3), (64, 6)])
def test_the_tree_is_as_good_as_its_count(size, depth):
  tree = trees.best_tree(ACCEPTANCE, size, depth)
  limit = size - 1 if depth is None else depth
  chance = ACCEPTANCE[tree.ranks]
  tokens = float(trees.expected_tokens(tree.parents, chance))
  best = trees.most_tokens(ACCEPTANCE, size, limit)[limit, size]
  assert tokens == pytest.approx(float(best), rel=1e-6)
  assert len(tree.parents) <= size - 1
  slots = np.arange(1, len(tree.parents) + 1)
  assert (tree.parents < slots).all()
  at = [0]
  for parent in tree.parents:
    at.append(at[parent] + 1)
  assert max(at) <= limit
  for parent in set(tree.parents.tolist()):
    children = tree.ranks[tree.parents == parent]
    assert sorted(children) == list(range(len(children)))


def test_with_falling_acceptance_the_likeliest_nodes_are_best():
  """A greedy choice of the largest path products is then optimal too."""
  frontier, total = [(1.0, 0)], 0.0
  for _ in range(40):
    frontier.sort()
    chance, rank = frontier.pop()
    total += chance
    # The node's first child, and its next sibling under the same parent.
    frontier.append((chance * ACCEPTANCE[0], 0))
    if chance < 1 and rank + 1 < len(ACCEPTANCE):
      sibling = chance / ACCEPTANCE[rank] * ACCEPTANCE[rank + 1]
      frontier.append((sibling, rank + 1))
  best = trees.most_tokens(ACCEPTANCE, 40, 39)[-1, 40]
  assert float(best) == pytest.approx(total, rel=1e-5)


def test_a_chain_is_equation_1():
  parents = np.arange(6)
  alpha = np.asarray([0.0, 0.5, 0.9, 1.0])
  ours = trees.expected_tokens(parents, np.repeat(alpha[:, None], 6, 1))
  np.testing.assert_allclose(ours, speedup.tokens_per_pass(alpha, 6), 1e-6)


def test_children_refused_in_turn():
  conditional = np.asarray([0.5, 0.4, 1.0, 0.7])
  ranks = trees.rank_acceptance(conditional)
  np.testing.assert_allclose(ranks, [0.5, 0.2, 0.3, 0.0], atol=1e-7)


def test_walked_trees():
  """Rounds played on a fixed tree with children tried in turn."""
  rng = np.random.default_rng(0)
  parents = np.asarray([0, 0, 1, 1, 2, 4])
  conditional = np.asarray([0.6, 0.5])
  ranks = np.asarray([0, 1, 0, 1, 0, 0])
  kept = np.zeros((100_000, 7), bool)
  kept[:, 0] = True
  taken = np.zeros_like(kept)  # a child of this slot has been kept
  for node, (parent, rank) in enumerate(zip(parents, ranks, strict=True), 1):
    tested = kept[:, parent] & ~taken[:, parent]
    kept[:, node] = tested & (rng.random(len(kept)) < conditional[rank])
    taken[:, parent] |= kept[:, node]
  chance = np.asarray(trees.rank_acceptance(conditional))[ranks]
  ours = float(trees.expected_tokens(parents, chance))
  assert ours == pytest.approx(kept.sum(1).mean(), abs=0.02)


def test_size_for_the_hardware():
  tokens = trees.most_tokens(ACCEPTANCE, 64, 10)
  slots = np.arange(65)
  flat = trees.best_size(tokens, 0.0, np.ones(65))
  assert (int(flat[0]), int(flat[1])) == (9, 64)
  assert float(flat[2]) == pytest.approx(float(tokens.max()))
  # Passes that cost their slots leave plain decoding best.
  dear = trees.best_size(tokens, 0.1, np.maximum(slots, 1.0))
  assert (int(dear[0]), int(dear[1])) == (0, 1) and float(dear[2]) == 1.0
  verify = 1 + 0.02 * np.maximum(slots - 1, 0)
  depth, size, factor = trees.best_size(tokens, 0.05, verify)
  table = np.asarray(tokens) / (verify + 0.05 * np.arange(11)[:, None])
  assert float(factor) == pytest.approx(table.max())
  assert table[int(depth), int(size)] == pytest.approx(table.max())
  assert 1 < int(size) < 64


def test_full_trees():
  p, q = np.asarray([0.6, 0.3, 0.1]), np.asarray([0.3, 0.6, 0.1])
  level = siblings.distinct_acceptance(p, q, 2)
  ours = trees.even_tree_tokens(level, 3)
  expected = speedup.tokens_per_pass(jnp.full(4, 0.925), np.arange(4))
  np.testing.assert_allclose(ours, expected, rtol=1e-6)
