"""EAGLE-2's trees: those that a plain search finds, and the battery."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specjax import passes
from specjax.acceptance import Recursive
from specjax.drafters import Eagle, EagleTree
from specjax.models.eagle import EagleHead, EagleParams
from specjax.models.eagle_config import config_for
from specjax.testing import cases, check_case, eagle_tree_case, runs
from specjax.types import Params, Slots, Streams

MODEL, TARGET = cases.net_world()
IDS = jnp.arange(1, MODEL.vocab_size - 1)
CONFIG = config_for(
  MODEL.config,
  taps=("layer_0", "layer_1", "hidden"),
  version=3,
  draft_vocab_size=len(IDS),
)
HEAD = EagleHead(CONFIG)


def weights(seed=5):
  net = HEAD.init(jax.random.key(seed))
  net = net | {"head": {"kernel": 2.0 * net["head"]["kernel"]}}
  return EagleParams(net, TARGET["embed"]["embedding"], None, IDS)


DRAFT = weights()


@jax.jit
def _chained(draft, hidden, tokens, cache):
  """Log-probabilities after a path, fed as one causal run, and its output."""
  outputs = [hidden[None, None]]
  for size in range(1, tokens.shape[0] + 1):
    fed = jnp.concatenate(outputs, 1)
    index = jnp.arange(size, dtype=jnp.int32)[None]
    positions = cache.length[:, None] + index
    slots = Slots(tokens[None, :size], positions, passes.causal(positions))
    out, _ = HEAD.feed(draft, slots, fed, cache)
    outputs.append(out[:, -1:])
  return jax.nn.log_softmax(HEAD.logits(draft, outputs[-1]), -1)[0, 0]


def search(hidden, cache, drafter, depth):
  """{path of tokens: score} of EAGLE-2's search, on the host."""
  k = drafter.branching

  def expand(path, score):
    logs = np.asarray(
      _chained(DRAFT, hidden, jnp.asarray(path, jnp.int32), cache)
    )
    best = np.argsort(-logs, stable=True)[:k]
    return {(*path, int(IDS[i])): score + logs[i] for i in best}

  pool, frontier = {}, {(): 0.0}
  for _ in range(depth):
    level = {}
    for path, score in frontier.items():
      level |= expand(path, score)
    pool |= level
    best = sorted(level, key=lambda path: -level[path])[:k]
    frontier = {path: level[path] for path in best}
  best = sorted(pool, key=lambda path: -pool[path])[: drafter.num_nodes]
  return {path: pool[path] for path in best}


def paths_of(nodes, row):
  """Paths of tokens of a row's live nodes."""
  tokens, parents = (
    np.asarray(nodes.tokens)[row],
    np.asarray(nodes.parents)[row],
  )
  paths = [()]
  for node in range(int(nodes.count[row])):
    assert parents[node] <= node, "a parent stands before its child"
    paths.append((*paths[parents[node]], int(tokens[node])))
  return paths[1:]


def test_the_tree_is_the_one_that_a_search_on_the_host_finds():
  drafter = EagleTree(CONFIG, num_nodes=9, max_depth=4, branching=3)
  params = Params(TARGET, DRAFT)
  engine = runs.make_engine(MODEL, drafter, Recursive())
  prompts = [[1, 2, 3, 4], [7, 2], [5, 5, 6, 1, 3, 8], [4], [2, 2]]
  rows = runs.start(engine, params, prompts, new=9, size=24)
  budgets = [4, 4, 2, 4, 0]
  keys = Streams(rows.key, rows.length)
  budget = jnp.asarray(budgets)
  proposal, _ = drafter.propose(params, rows.draft, rows, budget, keys)
  nodes = proposal.nodes
  assert proposal.q is None
  assert nodes.count.tolist()[3:] == [0, 0]  # no feature; no budget
  for row in range(3):
    state = jax.tree.map(lambda x, row=row: x[row : row + 1], rows.draft)
    wanted = search(state.hidden[0], state.cache, drafter, budgets[row])
    assert sorted(paths_of(nodes, row)) == sorted(wanted)
    assert max(map(len, wanted)) <= budgets[row]


@pytest.mark.parametrize("check", ["greedy_nets", "ragged_nets"])
def test_battery(check):
  check_case(eagle_tree_case(Recursive()), check)


def test_a_tree_of_one_branch_is_the_greedy_chain():
  """The chain's nodes at temperature 0 are the likeliest ones, too."""
  params = Params(TARGET, DRAFT)
  tree = EagleTree(CONFIG, num_nodes=4, max_depth=4, branching=1)
  chain = Eagle(CONFIG, 4)
  prompts = [[1, 2, 3, 4], [7, 2], [5, 5, 6, 1, 3, 8]]
  tokens = []
  for drafter in (tree, chain):
    engine = runs.make_engine(MODEL, drafter, Recursive())
    rows = runs.start(engine, params, prompts, new=9, size=24)
    keys = Streams(rows.key, rows.length)
    budget = jnp.full((3,), 4)
    proposal, _ = drafter.propose(params, rows.draft, rows, budget, keys)
    parents = jnp.broadcast_to(proposal.nodes.parents, (3, 4))
    assert parents.tolist() == [[0, 1, 2, 3]] * 3
    tokens.append(proposal.nodes.tokens)
  np.testing.assert_array_equal(*tokens)


@pytest.mark.parametrize(
  "sizes, reason",
  [
    (dict(num_nodes=0), "num_nodes must be at least 1"),
    (dict(branching=0), "branching must be at least 1"),
    (dict(num_nodes=7, max_depth=2, branching=2), "has 6 candidates"),
  ],
)
def test_sizes_that_make_no_tree_are_refused(sizes, reason):
  with pytest.raises(ValueError, match=reason):
    dataclasses.replace(EagleTree(CONFIG), **sizes)
