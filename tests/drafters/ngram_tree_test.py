"""Prompt lookup's trees: those that plain Python finds, and the battery."""

import collections

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specjax.acceptance import ExactMatch, Recursive
from specjax.drafters import NGram, NGramTree
from specjax.testing import cases, check_case, runs
from specjax.testing.built_in import ngram_tree_case
from specjax.types import Params, Streams

MODEL, TARGET = cases.wide_world()
SIZE = 40


def search(text, drafter, budget):
  """[(path of tokens, longest match, matches)] of all nodes, best first.

  Nodes of equal worth come in the order in which a walk along the matches,
  longest first, then latest, meets them.
  """
  matches = []
  for end in range(len(text) - 1):
    for size in range(drafter.max_ngram, drafter.min_ngram - 1, -1):
      if text[-size:] == text[max(end + 1 - size, 0) : end + 1]:
        matches.append((size, end))
        break
  matches = sorted(matches, reverse=True)[: drafter.num_matches]
  longest, number = {}, collections.Counter()
  for size, end in matches:
    following = text[end + 1 :]
    path = ()
    for step in range(min(drafter.max_depth, budget)):
      path = (*path, following[step % len(following)])
      longest.setdefault(path, size)
      number[path] += 1
  found = [(path, longest[path], number[path]) for path in longest]
  return sorted(found, key=lambda node: node[1:], reverse=True)


def paths_of(nodes, row):
  """Paths of tokens of a row's live nodes."""
  paths = [()]
  for node in range(int(nodes.count[row])):
    parent = int(nodes.parents[row, node])
    assert parent <= node, "a parent stands before its child"
    paths.append((*paths[parent], int(nodes.tokens[row, node])))
  return paths[1:]


def propose(drafter, prompts, budgets):
  engine = runs.make_engine(MODEL, drafter)
  params = Params(TARGET)
  rows = runs.start(engine, params, prompts, new=1, size=SIZE)
  keys = Streams(rows.key, rows.length)
  run = jax.jit(
    lambda rows, budget: drafter.propose(params, (), rows, budget, keys)
  )
  return run(rows, jnp.asarray(budgets, jnp.int32))[0]


@pytest.mark.parametrize(
  "drafter",
  [
    NGramTree(5, 4, 1, 2, 8),
    NGramTree(12, 5, 2, 3, 6),
    NGramTree(100, 3, 1, 2, 60),
  ],
  ids=str,
)
def test_the_tree_is_the_one_that_plain_python_finds(drafter):
  rng = np.random.default_rng(0)
  prompts = [rng.integers(0, 3, n).tolist() for n in range(1, SIZE)]
  prompts += [[1, 2, 3] * 4, [5] * 9, [*range(9)]]
  budgets = rng.integers(0, drafter.max_depth + 1, len(prompts))
  budgets[-3:] = drafter.max_depth
  proposal = propose(drafter, prompts, budgets)
  nodes = jax.tree.map(jnp.asarray, proposal.nodes)
  assert proposal.q is None
  branched = 0
  for row, prompt in enumerate(prompts):
    found = search(prompt, drafter, budgets[row])
    wanted = sorted(path for path, *_ in found[: drafter.num_nodes])
    got = paths_of(nodes, row)
    assert sorted(got) == wanted, prompt
    branched += len({path[:1] for path in got}) > 1
  assert branched > 10 and nodes.count[-1] == 0


def test_one_match_is_the_chain_of_prompt_lookup():
  rng = np.random.default_rng(1)
  prompts = [rng.integers(0, 4, n).tolist() for n in range(2, SIZE)]
  budgets = [5] * len(prompts)
  tree = propose(NGramTree(5, 5, 1, 3, 1), prompts, budgets).nodes
  chain = propose(NGram(5, 1, 3), prompts, budgets).nodes
  np.testing.assert_array_equal(tree.count, chain.count)
  live = np.arange(5)[None] < np.asarray(chain.count)[:, None]
  for ours, theirs in (
    (tree.tokens, chain.tokens),
    (tree.parents, chain.parents),
  ):
    np.testing.assert_array_equal(
      np.where(live, ours, 0), np.where(live, theirs, 0)
    )


@pytest.mark.parametrize(
  "rule, check",
  [
    (ExactMatch(), "greedy_nets"),
    (Recursive(), "ragged_tables"),
    pytest.param(Recursive(), "joint", marks=pytest.mark.runs_long),
  ],
  ids=lambda x: getattr(x, "name", x),
)
def test_battery(rule, check):
  check_case(ngram_tree_case(rule), check)


@pytest.mark.parametrize(
  "sizes, reason",
  [
    (dict(max_ngram=1), "1 <= min_ngram <= max_ngram, got 2 and 1"),
    (dict(num_matches=0), "num_matches must be at least 1, got 0"),
    (dict(num_matches=2), "give 14 nodes, fewer than num_nodes=16"),
  ],
)
def test_sizes_that_make_no_tree_are_refused(sizes, reason):
  with pytest.raises(ValueError, match=reason):
    NGramTree(**sizes)
