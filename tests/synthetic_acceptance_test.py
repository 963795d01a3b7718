"""The rule that keeps nodes at a chosen rate: its law, and that it says so."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specjax import acceptance, testing, trees
from specjax.evaluation.costs.filler import Filler
from specjax.testing import runs
from specjax.types import EMITTED, Law, Params, Proposal, Streams

GAMMA, BATCH = 4, 20000


def judge(rule, aux=None, count=GAMMA, p=(0.25, 0.75)):
  """A verdict on one chain of zeros a row, under the same p at every slot."""
  weights = jnp.broadcast_to(
    jnp.asarray(p, jnp.float32), (BATCH, GAMMA + 1, len(p))
  )
  zero = jnp.zeros(weights.shape[:2])
  law = Law(jnp.log(weights), jnp.full_like(zero, -jnp.inf), zero)
  tokens = jnp.zeros((BATCH, GAMMA), jnp.int32)
  keys = jax.random.split(jax.random.key(3), BATCH)
  streams = Streams(keys, jnp.full((BATCH,), 9, jnp.int32))
  nodes = trees.chain(tokens, jnp.full((BATCH,), count, jnp.int32))
  return rule(Proposal(nodes, aux=aux), law, streams)


def law_of_counts(rates):
  """P(accepted = 0, 1, ..., len(rates)) by multiplying out."""
  reached, law = 1.0, []
  for rate in rates:
    law.append(reached * (1 - rate))
    reached *= rate
  return np.asarray([*law, reached])


@pytest.mark.parametrize(
  "rate, rates",
  [
    (0.6, [0.6] * 4),
    ((0.9, 0.5), [0.9, 0.5, 0.5, 0.5]),
    ((1.0, 0.0), [1.0, 0.0, 0.0, 0.0]),
  ],
)
def test_accepted_counts_follow_the_chosen_law(rate, rates):
  verdict = judge(acceptance.LossySynthetic(rate))
  counts = np.bincount(verdict.accepted, minlength=GAMMA + 1)
  testing.assert_law(counts, law_of_counts(rates))


def test_rates_stated_by_the_drafter_are_used():
  rates = [0.2, 0.8, 0.4, 0.9]
  rule = acceptance.LossySynthetic(None)
  counts = np.bincount(judge(rule, jnp.asarray([rates])).accepted, minlength=5)
  testing.assert_law(counts, law_of_counts(rates))
  with pytest.raises(ValueError, match="no acceptance rates"):
    judge(rule)


def test_the_next_token_is_the_target_s_whatever_was_kept():
  verdict = judge(acceptance.LossySynthetic(0.5))
  counts = np.zeros((GAMMA + 1, 2), np.int64)
  np.add.at(counts, (verdict.accepted, verdict.next_token), 1)
  testing.assert_conditional_law(counts, np.tile([[0.25, 0.75]], (5, 1)))


def test_nodes_past_the_count_are_not_kept():
  verdict = judge(acceptance.LossySynthetic(1.0), count=2)
  assert set(np.unique(verdict.accepted)) == {2}


@pytest.mark.parametrize("rate", [0.3, 0.8])
def test_rounds_of_the_loop_emit_the_closed_form(rate):
  model, target = testing.TableModel(5, 1), testing.random_table(0, 5, 1)
  rule = acceptance.LossySynthetic(None)
  engine = runs.make_engine(model, Filler(GAMMA, 3), rule)
  params = Params(target, {"rates": jnp.full((GAMMA,), rate)})
  rows, rounds, size = 400, 12, 96
  start = runs.start(
    engine, params, [[1, 2]] * rows, new=size - 2, size=size, filters=()
  )
  done = runs.to_host(runs.advance(engine, params, start, rounds))
  emitted = done.history[:, :rounds, EMITTED]
  expected = (1 - rate ** (GAMMA + 1)) / (1 - rate)
  error = emitted.std() / np.sqrt(emitted.size)
  assert abs(emitted.mean() - expected) < 5 * error
  # Rounds of one row are independent draws.
  first, second = emitted[:, :-1].ravel() - 1, emitted[:, 1:].ravel() - 1
  pairs = np.zeros((GAMMA + 1, GAMMA + 1), np.int64)
  np.add.at(pairs, (first, second), 1)
  one = law_of_counts([rate] * GAMMA)
  testing.assert_conditional_law(pairs, np.tile(one, (GAMMA + 1, 1)))


def test_it_is_lossy_and_says_so():
  rule = acceptance.make_rule("lossy_synthetic", acceptance_rate=0.4)
  assert rule.name.startswith("lossy_")
  assert not acceptance.is_lossless(Filler(2), rule)
  for wrong in (1.2, (), (0.5, -0.1)):
    with pytest.raises(ValueError, match="acceptance_rate"):
      acceptance.LossySynthetic(wrong)
