"""Static trees: shapes, published choices, what is refused."""

import numpy as np
import pytest

from specjax import topologies
from specjax.theory import trees as theory
from specjax.topologies import Topology

BRANCHED = Topology(((0, 1), (1,), (0,), (0, 0), (1, 0), (0, 1, 0)))


def test_nodes_stand_by_depth_and_know_their_parents():
  assert BRANCHED.paths == ((0,), (1,), (0, 0), (0, 1), (1, 0), (0, 1, 0))
  assert BRANCHED.parents == (0, 0, 1, 1, 2, 4)
  assert BRANCHED.ranks == (0, 1, 0, 1, 0, 0)
  assert BRANCHED.depths == (1, 1, 2, 2, 2, 3)
  assert BRANCHED.level(2) == range(2, 5)
  assert BRANCHED.children(0) == range(2)
  assert BRANCHED.children(4) == range(5, 6)
  assert not BRANCHED.children(6)
  assert BRANCHED.cut(1).paths == ((0,), (1,))
  assert topologies.of_parents(BRANCHED.parents) == BRANCHED
  assert hash(Topology(BRANCHED.paths[::-1])) == hash(BRANCHED)


def test_expansions_chains_and_the_best_tree():
  wide = topologies.expansion((1, 1, 3, 1))
  assert (wide.num_nodes, wide.max_depth) == (8, 4)
  assert wide.parents == (0, 1, 2, 2, 2, 3, 4, 5)
  apart = topologies.independent(3, 2)
  assert apart.parents == (0, 0, 0, 1, 2, 3)
  assert topologies.chain(3).parents == (0, 1, 2)
  best = theory.best_tree(np.asarray((0.6, 0.15, 0.07)), 9)
  grown = topologies.of_parents(best.parents.tolist())
  # The same nodes in the same order: levels, and siblings side by side.
  assert grown.parents == tuple(best.parents)
  assert grown.ranks == tuple(best.ranks)


@pytest.mark.parametrize(
  "name, nodes, depth, by_depth",
  [
    # Medusa's medusa_choices.py and EAGLE's choices.py, both mc_sim_7b_63.
    ("medusa_63", 63, 4, [10, 28, 23, 2]),
    ("eagle_25", 25, 5, [4, 8, 8, 3, 2]),
    ("chain:5", 5, 5, [1] * 5),
    ("chains:3x2", 6, 2, [3, 3]),
    ("expand:4x2x1", 20, 3, [4, 8, 8]),
  ],
)
def test_trees_by_name(name, nodes, depth, by_depth):
  tree = topologies.named(name)
  assert (tree.num_nodes, tree.max_depth) == (nodes, depth)
  assert np.bincount(tree.depths)[1:].tolist() == by_depth


@pytest.mark.parametrize(
  "tree, name",
  [
    (BRANCHED, "paths:00/010/10"),
    (topologies.chain(2), "paths:00"),
    (topologies.NAMED["eagle_25"], "eagle_25"),
    (topologies.expansion((12,)), "paths:" + "/".join("0123456789ab")),
  ],
)
def test_a_name_gives_the_tree_that_has_it(tree, name):
  assert tree.name == name
  assert topologies.named(name) == tree


def test_a_path_brings_what_stands_before_it():
  assert topologies.named("paths:12").paths == (
    ((0,), (1,), (1, 0), (1, 1), (1, 2))
  )
  with pytest.raises(ValueError, match="more than 36 children"):
    topologies.expansion((37,)).name  # noqa: B018


@pytest.mark.parametrize(
  "make, reason",
  [
    (lambda: Topology(()), "needs a node"),
    (lambda: Topology(((),)), r"\[\] is no path"),
    (lambda: Topology(((0,), (0,))), r"\[0\] twice"),
    (lambda: Topology(((0,), (1, 0))), "no parent"),
    (lambda: Topology(((0,), (2,))), "no sibling of rank 1"),
    (lambda: Topology(((-1,),)), "0 or more"),
    (lambda: topologies.expansion((2, 0)), "1 or more, got 0"),
    (lambda: topologies.of_parents((0, 2)), "stands before its parent"),
    (lambda: topologies.named("oak"), "unknown tree 'oak'"),
    (lambda: topologies.named("chain:x"), "'chain:x' is no tree"),
    (lambda: topologies.named("chains:3"), "'chains:3' is no tree"),
    (lambda: topologies.named("paths:0//1"), "'' is no path"),
    (lambda: topologies.named("paths:0,1"), "'0,1' is no path"),
  ],
)
def test_what_is_no_tree_is_refused(make, reason):
  with pytest.raises(ValueError, match=reason):
    make()
