"""Heads in the loop: which node comes from which head, and by what law."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from specjax import sampling
from specjax.acceptance import make_rule
from specjax.drafters import DrafterSettings, Heads, registry
from specjax.models.heads import Blockwise, Medusa, vocabulary_rows
from specjax.testing import (
  TableHeads,
  blockwise_case,
  cases,
  check_case,
  heads_net,
  heads_weights,
  law_of,
  runs,
)
from specjax.types import DRAFTED, EMITTED, Feedback, Params, Streams

NET = TableHeads(11, 3)
MODEL, TABLE = cases.cyclic_world()
IDS = jnp.asarray([0, 2, 3, 8, 9, 15])


def _seen(tokens, count):
  """Feedback of a pass over text whose feature is the token and its number."""
  tokens = jnp.asarray(tokens, jnp.int32)
  hidden = tokens[..., None] * jnp.ones((1, 1, 3))
  counted = jnp.asarray(count, jnp.int32)
  return Feedback(tokens, tokens, counted, {"hidden": hidden})


def test_a_row_keeps_the_newest_feature_and_a_done_row_its_own():
  drafter, params = Heads(NET), Params(TABLE, TABLE)
  state = drafter.init(params, 3, 8)
  assert not state.known.any()
  state = drafter.observe(params, state, _seen([[4, 5, 6]] * 3, [3, 1, 0]))
  assert state.known.tolist() == [True, True, False]
  assert state.hidden[:, 0].tolist() == [6, 4, 0]
  state = drafter.observe(params, state, _seen([[7, 8, 9]] * 3, [0, 2, 0]))
  assert state.hidden[:, 0].tolist() == [6, 8, 0]
  assert state.known.tolist() == [True, True, False]


def test_heads_that_are_right_are_all_kept_and_one_token_drafts_nothing():
  """On a circle node i is right if head i + 1 drafts it, else never."""
  engine = runs.make_engine(MODEL, Heads(NET, 4), make_rule("rejection"))
  prompts = [[3], [3, 4], [0, 1, 2, 3, 4, 5, 6]]
  rows = runs.run(engine, Params(TABLE, TABLE), prompts, new=12, size=24)
  assert rows.history[0, :2, DRAFTED].tolist() == [0, 4]
  assert rows.history[0, :3, EMITTED].tolist() == [1, 5, 5]
  for row in (1, 2):
    assert rows.history[row, :3, EMITTED].tolist() == [5, 5, 2]


def _reduced(kind):
  """(target, drafter, params) with heads that say 6 of 17 tokens."""
  model, target = cases.net_world()
  whole = heads_net(model, kind)
  net = dataclasses.replace(whole, vocab_size=len(IDS))
  draft = heads_weights(model, target, kind)
  for k in range(net.num_heads):
    one = draft[f"heads_{k}"]
    if "head" in one:
      one["head"] = {"kernel": one["head"]["kernel"][IDS]}
  if "head" in draft:
    draft["head"] = {"kernel": vocabulary_rows(target, IDS)}
  draft["token_ids"] = IDS
  return model, Heads(net, 3, model.vocab_size), Params(target, draft)


@pytest.mark.parametrize("kind", [Medusa, Blockwise])
def test_each_node_is_drawn_from_the_law_stated(kind):
  """q is the head's law at the row's setting, over the tokens it can say."""
  model, drafter, params = _reduced(kind)
  settings = (*cases.SETTINGS, cases.GREEDY)
  number = len(settings)
  engine = runs.make_engine(model, drafter, make_rule("rejection"))
  prompts = [[1, 2, 3, 4]] * number
  rows = runs.start(engine, params, prompts, new=8, size=16, settings=settings)
  budget = jnp.full((number,), 3)
  keys = Streams(rows.key, rows.length)
  proposal, _ = drafter.propose(params, rows.draft, rows, budget, keys)
  assert proposal.q.scaled.shape == (number, 3, model.vocab_size)
  logits = np.full((number, 3, model.vocab_size), -np.inf)
  logits[..., np.asarray(IDS)] = drafter.net(params.draft, rows.draft.hidden, 3)
  got = sampling.dense(proposal.q)
  for i, setting in enumerate(settings):
    for node in range(3):
      wanted = law_of(logits[i, node], setting)
      np.testing.assert_allclose(got[i, node], wanted, atol=1e-5)
  node = jnp.broadcast_to(jnp.arange(3), (number, 3))
  u = sampling.round_uniform(keys, sampling.Purpose.DRAFT, node)
  drawn = sampling.draw(proposal.q, u)
  np.testing.assert_array_equal(drawn, proposal.nodes.tokens)
  assert proposal.nodes.tokens.dtype == jnp.int32


@pytest.mark.parametrize("kind", [Medusa, Blockwise])
def test_a_reduced_vocabulary_gives_plain_decoding_s_tokens(kind):
  model, drafter, params = _reduced(kind)
  prompts = cases.random_prompts(3, model.vocab_size, [1, 2, 5, 9])
  options = dict(new=20, size=32, settings=cases.SETTINGS[0])
  wanted = cases.plain(model, params.target, prompts, **options)
  engine = runs.make_engine(model, drafter, make_rule("exact_match"))
  got = runs.run(engine, params, prompts, **options)
  np.testing.assert_array_equal(got.tokens, wanted.tokens)
  assert got.rounds.sum() < wanted.rounds.sum()


def test_blockwise_heads_in_the_battery():
  """On tables the case is Medusa's, which goes through all of it."""
  check_case(blockwise_case(make_rule("rejection")), "greedy_nets")


def test_what_does_not_fit_is_refused():
  with pytest.raises(ValueError, match="8 heads cannot draft 9 tokens"):
    Heads(NET, 9)
  with pytest.raises(ValueError, match="must be at least 1 for Heads"):
    Heads(NET, 0)
  assert Heads(NET) == Heads(NET, 8) and Heads(NET).widths == (1, 9)
  with pytest.raises(ValueError, match="need their trained weights"):
    Heads(NET).init(Params(TABLE), 1, 8)
  with pytest.raises(ValueError, match="say 11 of 20 tokens need token_ids"):
    Heads(NET, vocab_size=20).init(Params(TABLE, TABLE), 1, 8)
  for name in ("medusa", "blockwise"):
    with pytest.raises(ValueError, match=f"'{name}' needs the folder of"):
      registry.check(name, DrafterSettings())
