"""Drafters that share a pass: who is asked, what each learns, and the law."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specjax import passes, sampling
from specjax.acceptance import ExactMatch, Recursive, Rejection
from specjax.drafters import (
  DraftModel,
  DraftTree,
  Eagle,
  FirstOf,
  Heads,
  Merge,
  NGram,
  NGramTree,
)
from specjax.models.eagle import EagleHead, EagleParams
from specjax.models.eagle_config import config_for
from specjax.models.resized import Resized
from specjax.testing import (
  Case,
  Recital,
  Riders,
  cases,
  check_case,
  heads_net,
  heads_weights,
  nets,
  runs,
)
from specjax.testing.cases import SETTINGS
from specjax.types import ACCEPTED, WIDTH, Drafter, Params, Streams

NET = nets.tiny_net(num_layers=1)
TARGET = nets.random_net(NET)
DRAFT = nets.perturb(TARGET, 1, 0.5)
EAGLE = config_for(NET.config, taps=("layer_0", "hidden"), version=3)
EAGLE_DRAFT = EagleParams(
  EagleHead(EAGLE).init(jax.random.key(5)), TARGET["embed"]["embedding"], None
)
PROMPTS = cases.random_prompts(9, NET.vocab_size, [2 + i for i in range(8)])
OPTIONS = dict(
  size=96, settings=cases.Setting(temperature=3.0), filters=("temperature",)
)


@dataclasses.dataclass(frozen=True)
class Sometimes:
  """A drafter that is asked in one round of `every` only."""

  part: Drafter
  every: int
  turn: int

  def __getattr__(self, name):
    if name.startswith("__") or name == "part":
      raise AttributeError(name)
    return getattr(self.part, name)

  def propose(self, params, state, rows, budget, keys):
    budget = jnp.where(rows.rounds % self.every == self.turn, budget, 0)
    return self.part.propose(params, state, rows, budget, keys)


CHAINS = (
  (Recital(6), None),
  (DraftModel(NET, 4), DRAFT),
  (Eagle(EAGLE, 4), EAGLE_DRAFT),
  (Heads(heads_net(NET), 4), heads_weights(NET, TARGET)),
  (NGram(6, 1, 3), None),
)
TREE = (DraftTree(NET, cases.bushy(4), "point"), DRAFT)
MERGED = (*CHAINS[:2], TREE)


def in_turns():
  """Each part in one round of five, a text that is known in one."""
  parts = [part for part, _ in CHAINS]
  return FirstOf(tuple(Sometimes(p, 5, i) for i, p in enumerate(parts)))


def all_at_once():
  (recital, _), *others = MERGED
  return Merge((Sometimes(recital, 2, 0), *(part for part, _ in others)))


@jax.jit(static_argnames="part")
def read_whole(part, params, rows):
  """State of a part that stands alone and reads all but the last token."""
  batch, size = rows.tokens.shape
  cache, until = NET.init_cache(batch, size), rows.length - 1
  _, seen = passes.read_text(
    NET, params.target, rows.tokens, cache, until, size, part.taps
  )
  return part.observe(params, part.init(params, batch, size), seen)


@jax.jit(static_argnames="part")
def propose_from(part, params, state, rows):
  keys = Streams(rows.key, rows.length)
  budget = jnp.full_like(rows.length, part.max_depth)
  return part.propose(params, state, rows, budget, keys)[0]


@pytest.mark.parametrize(
  "drafter, weights",
  [(in_turns(), CHAINS), (all_at_once(), MERGED)],
  ids=["first_of", "merge"],
)
def test_every_part_knows_the_text_whoever_proposed_it(drafter, weights):
  """Its proposals are those of a part that has read the text in one go."""
  plain = cases.plain(NET, TARGET, PROMPTS, new=80, **OPTIONS)
  drafts = [draft for _, draft in weights]
  drafts[0] = {"text": jnp.asarray(plain.tokens)}
  params = Params(TARGET, tuple(drafts))
  engine = runs.make_engine(NET, drafter, ExactMatch())
  rows = runs.start(engine, params, PROMPTS, new=80, **OPTIONS)
  rows = runs.advance(engine, params, rows, 11)
  length = np.asarray(rows.length)
  assert np.asarray(rows.active).all()
  for row, said in enumerate(plain.tokens):
    text = np.asarray(rows.tokens)[row, : length[row]]
    assert text.tolist() == said[: length[row]].tolist()
  accepted = np.asarray(rows.history)[:, :11, ACCEPTED]
  assert len(np.unique(accepted)) > 5 and accepted.max() > 4
  for index, (part, _) in enumerate(weights[1:], 1):
    own = Params(TARGET, params.draft[index])
    read = read_whole(part, own, rows)
    got, wanted = (
      propose_from(part, own, state, rows)
      for state in (rows.draft.parts[index], read)
    )
    count = np.asarray(wanted.nodes.count)
    np.testing.assert_array_equal(got.nodes.count, count)
    live = np.arange(part.num_nodes)[None] < count[:, None]
    ours, theirs = (x.nodes.tokens * live for x in (got, wanted))
    assert live.any()
    np.testing.assert_array_equal(ours, theirs)
    if wanted.q is not None:
      np.testing.assert_allclose(
        sampling.dense(got.q), sampling.dense(wanted.q), rtol=1e-3, atol=1e-5
      )


TABLE, WEIGHTS = cases.wide_world()
ROUGH = cases.rough_draft(TABLE, WEIGHTS)
LOOKUP = NGram(4, 2, 3)
BUSHY = DraftTree(TABLE, cases.bushy(4), "point")
# A text that repeats itself, one that does not, one too short to.
SOME = [[1, 2, 3, 1, 2], [1, 2, 3, 4, 5, 6], [7]]


def propose(drafter, draft, prompts, budgets, settings=SETTINGS[0]):
  params = Params(WEIGHTS, draft)
  engine = runs.make_engine(TABLE, drafter)
  rows = runs.start(
    engine,
    params,
    prompts,
    new=9,
    size=24,
    settings=settings,
    filters=("temperature",),
  )
  keys = Streams(rows.key, rows.length)
  budget = jnp.asarray(budgets, jnp.int32)
  return jax.jit(drafter.propose)(params, rows.draft, rows, budget, keys)


def dense_rows(proposal):
  """q of every node, [B N V]."""
  row = jnp.broadcast_to(proposal.q_row, proposal.nodes.tokens.shape)
  return np.take_along_axis(
    np.asarray(sampling.dense(proposal.q)), np.asarray(row)[..., None], 1
  )


def test_a_later_part_serves_the_rows_that_the_first_does_not():
  draft = DraftModel(TABLE, 3)
  both = FirstOf((LOOKUP, draft))
  whole, _ = propose(both, (None, ROUGH), SOME, [4, 4, 2])
  looked_up, _ = propose(LOOKUP, None, SOME, [4, 4, 2])
  drafted, _ = propose(draft, ROUGH, SOME, [3, 3, 2])
  assert both.siblings == "chain" and both.widths == (1, 4, 5)
  assert whole.nodes.count.tolist() == [4, 3, 2]
  tokens, q = np.asarray(whole.nodes.tokens), dense_rows(whole)
  assert tokens[0].tolist() == looked_up.nodes.tokens[0].tolist()
  np.testing.assert_array_equal(q[0], np.eye(TABLE.vocab_size)[tokens[0]])
  for row, count in ((1, 3), (2, 2)):
    wanted = drafted.nodes.tokens[row, :count]
    assert tokens[row, :count].tolist() == wanted.tolist()
    np.testing.assert_allclose(
      q[row, :count], dense_rows(drafted)[row, :count], rtol=1e-4, atol=1e-6
    )


def test_a_part_that_no_row_needs_runs_nothing():
  both = FirstOf((LOOKUP, DraftModel(TABLE, 3)))
  for prompts, fed in (([SOME[0]] * 3, False), (SOME, True)):
    _, state = propose(both, (None, ROUGH), prompts, [4, 4, 4])
    assert bool(state.parts[1].ready.any()) is fed


def paths_of(nodes, row):
  paths = [()]
  tokens = np.asarray(nodes.tokens)
  parents = np.broadcast_to(nodes.parents, tokens.shape)
  for node in range(np.asarray(nodes.count)[row]):
    paths.append((*paths[parents[row, node]], int(tokens[row, node])))
  return paths[1:]


def test_merged_proposals_are_the_union_of_their_paths():
  parts = (NGramTree(6, 3, 1, 2, 3), DraftModel(TABLE, 2), BUSHY)
  drafts = (None, ROUGH, ROUGH)
  prompts = [[1, 2, 3, 1, 2, 4, 1, 2], *SOME]
  budgets = np.asarray([4, 3, 4, 0])
  whole, _ = propose(Merge(parts), drafts, prompts, budgets)
  each = [
    propose(part, draft, prompts, np.minimum(budgets, part.max_depth))[0]
    for part, draft in zip(parts, drafts, strict=True)
  ]
  assert whole.q is None
  for row in range(4):
    wanted = [path for one in each for path in paths_of(one.nodes, row)]
    got = paths_of(whole.nodes, row)
    assert len(got) == len(set(got)) and set(got) == set(wanted)
    assert bool(got) == bool(budgets[row])
  assert whole.nodes.count[0] < sum(one.nodes.count[0] for one in each)


def test_where_a_part_branches_the_first_of_them_is_a_tree_of_point_masses():
  both = FirstOf((NGramTree(6, 3, 1, 2, 3), DraftModel(TABLE, 2)))
  assert both.siblings == "point" and both.max_depth == 3
  prompts = [[1, 2, 3, 1, 2, 4, 1, 2], SOME[1]]
  whole, _ = propose(both, (None, ROUGH), prompts, [2, 2])
  assert whole.q is None
  assert paths_of(whole.nodes, 0) == [(4,), (4, 1), (3,), (3, 1)]
  drafted = paths_of(whole.nodes, 1)
  assert [len(path) for path in drafted] == [1, 2]


LOOKED_UP, RIDDEN = NGram(4, 2, 2), Riders(3, 4)


@pytest.mark.parametrize(
  "drafter, index",
  [(FirstOf((LOOKED_UP, RIDDEN)), 1), (Merge((RIDDEN, LOOKED_UP)), 0)],
  ids=["first_of", "merge"],
)
def test_riders_of_a_part_are_shown_to_it(drafter, index):
  model, target = cases.small_world()
  prompts = cases.random_prompts(3, 4, [1 + i % 7 for i in range(16)])
  options = dict(new=24, size=40, filters=())
  plain = cases.plain(model, target, prompts, **options)
  text = {"text": jnp.asarray(plain.tokens)}
  params = Params(target, (None, text) if index else (text, None))
  engine = runs.make_engine(model, drafter, ExactMatch())
  rows = runs.start(engine, params, prompts, **options)
  rows = runs.advance(engine, params, rows)
  state = rows.draft.parts[index]
  assert state["seen"].sum() > 100 and not state["wrong"].any()
  np.testing.assert_array_equal(rows.tokens, plain.tokens)
  assert np.asarray(rows.history)[..., WIDTH].max() == drafter.widths[-1]
  assert drafter.widths[-1] == 1 + drafter.num_nodes + 4


def looked_up_or_drafted(model, depth):
  return FirstOf((NGram(depth, 2, 3), DraftModel(model, depth)))


def looked_up_and_drafted(model, depth):
  tree = DraftTree(model, cases.bushy(depth), "point")
  return Merge((NGramTree(2 * depth, depth, 1, 3, 4), tree))


def case(make, rule):
  return Case(
    name=f"{make.__name__}/{rule.name}",
    make=make,
    rule=rule,
    weights=lambda model, target: (None, cases.rough_draft(model, target)),
    best_weights=None,
    draws_like_target=False,
  )


@pytest.mark.parametrize(
  "make, rule, check",
  [
    (looked_up_or_drafted, Rejection(), "ragged_tables"),
    *(
      pytest.param(*pair, check, marks=pytest.mark.runs_long)
      for pair in (
        (looked_up_or_drafted, Rejection()),
        (looked_up_and_drafted, Recursive()),
      )
      for check in ("greedy_nets", "ragged_nets", "joint")
    ),
  ],
  ids=lambda x: getattr(x, "__name__", getattr(x, "name", x)),
)
def test_battery(make, rule, check):
  check_case(case(make, rule), check)


def test_parts_that_do_not_fit_are_refused():
  with pytest.raises(ValueError, match="FirstOf needs at least one drafter"):
    FirstOf(())
  with pytest.raises(ValueError, match="got Riders, Riders: riders are packed"):
    Merge((Riders(1, 1), Riders(1, 2)))
  both = Merge((LOOKUP, BUSHY))
  with pytest.raises(ValueError, match="draft= as a tuple of 2, one for each"):
    both.init(Params(WEIGHTS, (None,)), 1, 8)
  small = DraftModel(Resized(TABLE, 9), 2)
  with pytest.raises(ValueError, match="draw from 9 and 11 tokens"):
    propose(
      FirstOf((small, DraftModel(TABLE, 2))), (ROUGH, ROUGH), SOME, [2] * 3
    )
