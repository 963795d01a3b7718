"""Recursive rejection in the loop: several rounds, drafters that draw trees."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from specjax import passes, sampling
from specjax.acceptance import ExactMatch, Recursive
from specjax.api.pairing import default_rule
from specjax.testing import SETTINGS, RandomTree, Setting, cases, runs, tables
from specjax.testing.chisquare import assert_law
from specjax.testing.oracle import conditional_laws, joint_law
from specjax.types import ACCEPTED, Nodes, Params, Proposal

ROWS, NEW = 1 << 14, 4
PROMPT = (2, 0, 1)
GREEDY = Setting(temperature=0.0)


@dataclasses.dataclass(frozen=True)
class Star:
  """Three tokens for the next place, from a table's law of the last two."""

  siblings: str
  num_nodes = 3
  max_depth = 1
  num_riders = 0
  widths = (1, 4)
  taps = ()
  reads_logits = False

  def init(self, params, batch, capacity):
    return ()

  def observe(self, params, state, seen):
    return state

  def propose(self, params, state, rows, budget, keys):
    last = passes.gather_tokens(rows.tokens, rows.length - 2, 2)
    logits = jnp.asarray(params.draft["table"])[last[:, 0], last[:, 1]]
    q = sampling.make_law(logits[:, None], rows.sampling)
    node = jnp.broadcast_to(jnp.arange(3), (budget.shape[0], 3))
    u = sampling.round_uniform(keys, sampling.Purpose.DRAFT, node)
    weights, tokens = sampling.dense(q)[:, 0], []
    for i in range(3):
      tokens.append(sampling.inverse_cdf(weights, u[:, i]))
      if self.siblings == "without_replacement":
        said = jnp.arange(weights.shape[1])[None] == tokens[-1][:, None]
        weights = jnp.where(said, 0.0, weights)
    nodes = Nodes(
      tokens=jnp.stack(tokens, 1),
      parents=jnp.zeros((1, 3), jnp.int32),
      count=jnp.where(budget > 0, 3, 0),
      rider_count=jnp.zeros_like(budget),
      num_judged=3,
      max_depth=1,
    )
    return Proposal(nodes, q, jnp.zeros((1, 3), jnp.int32)), state


def _drafter(siblings):
  """(drafter, its weights)"""
  model, target = cases.small_world()
  if siblings == "point":
    said = np.random.default_rng(0).integers(0, 4, (ROWS, len(PROMPT) + NEW))
    text = {"text": jnp.asarray(said, jnp.int32)}
    return RandomTree(6, 3, model.vocab_size), text
  return Star(siblings), tables.mixed_table(target, 1)


@pytest.mark.parametrize("siblings", ["point", "iid", "without_replacement"])
def test_four_tokens_of_several_rounds_have_the_targets_law(siblings):
  """And greedy rows beside sampled ones say what plain decoding says.

  A right rule fails with probability 3e-6.
  """
  model, target = cases.small_world()
  drafter, draft = _drafter(siblings)
  params = Params(target, draft)
  settings = (SETTINGS[0], SETTINGS[1], GREEDY)
  group = np.arange(ROWS) % len(settings)
  rows = runs.run(
    runs.make_engine(model, drafter, Recursive()),
    params,
    np.tile(np.asarray(PROMPT, np.int32), (ROWS, 1)),
    new=NEW,
    size=len(PROMPT) + NEW,
    settings=[settings[g] for g in group],
  )
  said = rows.tokens[:, len(PROMPT) :]
  for number, setting in enumerate(settings):
    counts = np.zeros((model.vocab_size,) * NEW, np.int64)
    np.add.at(counts, tuple(said[group == number].T), 1)
    laws = conditional_laws(np.asarray(target["table"]), setting)
    what = f"{siblings}, {setting}"
    assert_law(counts, joint_law(laws, PROMPT, NEW), what=what)
  accepted = rows.history[..., ACCEPTED]
  assert accepted.max() == drafter.max_depth
  assert (rows.rounds > 1).mean() > 0.9


def test_it_is_the_default_for_trees_that_were_drawn_from_a_law():
  model, target = cases.small_world()
  drafter, draft = _drafter("iid")
  assert default_rule(model, drafter, Params(target, draft)) == Recursive()
  drafter, draft = _drafter("point")
  one = {"text": draft["text"][:1]}
  assert default_rule(model, drafter, Params(target, one)) == ExactMatch()
