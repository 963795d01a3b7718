"""Rules on laws written out by hand; their laws are the battery's business."""

import jax.numpy as jnp
import numpy as np
import pytest

from specjax import acceptance, drafters, trees
from specjax.types import Nodes, Proposal
from tests.forests import law, streams


def chain(tokens, q=None, count=None) -> Proposal:
  tokens = jnp.asarray(tokens, jnp.int32)
  batch, size = tokens.shape
  count = jnp.full((batch,), size) if count is None else jnp.asarray(count)
  q_row = None if q is None else jnp.arange(size)[None]
  return Proposal(trees.chain(tokens, count), q, q_row)


def many(row, batch=4000):
  return jnp.broadcast_to(
    jnp.asarray(row, jnp.float32), (batch, *np.shape(row))
  )


def test_equal_laws_accept_everything():
  p = many([[0.2, 0.3, 0.5]] * 3)
  tokens = np.random.default_rng(0).integers(0, 3, (4000, 2))
  verdict = acceptance.Rejection()(
    chain(tokens, law(p[:, :2])), law(p), streams(4000)
  )
  assert (verdict.accepted == 2).all()
  assert verdict.slots.tolist()[0] == [0, 1, 2]


def test_one_ulp_apart_accepts_all_but_a_few_and_never_breaks():
  p = many([[0.25, 0.25, 0.5]] * 2)
  q = jnp.nextafter(p[:, :1], jnp.ones(()))
  tokens = np.random.default_rng(0).integers(0, 3, (4000, 1))
  verdict = acceptance.Rejection()(chain(tokens, law(q)), law(p), streams(4000))
  assert (verdict.accepted == 1).mean() > 0.99
  assert ((verdict.next_token >= 0) & (verdict.next_token < 3)).all()


def test_a_token_that_the_target_excludes_is_never_kept_nor_drawn():
  p = many([[0.0, 0.4, 0.6], [0.0, 1.0, 0.0]])
  q = many([[1.0, 0.0, 0.0]])
  verdict = acceptance.Rejection()(
    chain(np.zeros((4000, 1)), law(q)), law(p), streams(4000)
  )
  assert (verdict.accepted == 0).all()
  assert set(np.unique(verdict.next_token)) == {1, 2}


def test_the_residual_is_drawn_after_a_refusal():
  p = many([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]])
  q = many([[0.5, 0.0, 0.5]])
  verdict = acceptance.Rejection()(
    chain(np.full((4000, 1), 2), law(q)), law(p), streams(4000)
  )
  assert (verdict.next_token == 1).all()
  biased = acceptance.BiasedResample()(
    chain(np.full((4000, 1), 2), law(q)), law(p), streams(4000)
  )
  assert set(np.unique(biased.next_token)) == {0, 1}


@pytest.mark.parametrize(
  "lenience, rate", [(1.0, 0.5), (0.5, 1.0), (0.8, 0.625)]
)
def test_lenience_divides_the_target(lenience, rate):
  p, q = many([[0.25, 0.75]] * 2), many([[0.5, 0.5]])
  verdict = acceptance.LossyLenience(lenience)(
    chain(np.zeros((4000, 1)), law(q)), law(p), streams(4000)
  )
  assert float(verdict.accepted.mean()) == pytest.approx(rate, abs=0.04)


def test_a_point_mass_is_kept_with_its_probability():
  p = many([[0.3, 0.7], [0.5, 0.5]])
  for rule in (acceptance.Rejection(), acceptance.ExactMatch()):
    verdict = rule(chain(np.zeros((4000, 1))), law(p), streams(4000))
    assert float(verdict.accepted.mean()) == pytest.approx(0.3, abs=0.04)
    refused = verdict.next_token[verdict.accepted == 0]
    assert (refused == 1).all()


def test_nodes_past_the_count_are_not_judged():
  p = many([[1.0, 0.0]] * 4, 3)
  proposal = chain(np.zeros((3, 3)), count=[0, 2, 3])
  for rule in (acceptance.Rejection(), acceptance.ExactMatch()):
    verdict = rule(proposal, law(p), streams(3))
    assert verdict.accepted.tolist() == [0, 2, 3]
    assert verdict.slots.tolist()[1] == [0, 1, 2, 2]


def test_exact_match_walks_a_tree_with_equal_siblings():
  #  slot 0 -- 1 (token 1) -- 3 (token 0)
  #        `-- 2 (token 1) -- 4 (token 1) -- 5 (token 1)
  nodes = Nodes(
    tokens=jnp.asarray([[1, 1, 0, 1, 1]]),
    parents=jnp.asarray([[0, 0, 1, 2, 4]]),
    count=jnp.asarray([5]),
    rider_count=jnp.asarray([0]),
    num_judged=5,
    max_depth=3,
  )
  always_one = jnp.broadcast_to(jnp.asarray([0.0, 1.0]), (1, 6, 2))
  verdict = acceptance.ExactMatch()(
    Proposal(nodes), law(always_one), streams(1)
  )
  assert verdict.slots.tolist() == [[0, 2, 4, 5]]
  assert verdict.accepted.tolist() == [3]
  assert verdict.next_token.tolist() == [1]


def test_a_pairing_that_a_rule_does_not_know_is_refused():
  class Tree(drafters.NGram):
    siblings = "iid"

  reasons = {
    "rejection": "'iid' ones: it tests a node once",
    "biased_resample": "'iid' ones: it tests a node once",
    "lossy_lenience": "'iid' ones: it tests a node once",
    "lossy_synthetic": "'iid' ones: its rate is that of one node a depth",
    "block_verification": "'iid' ones: it weighs one path as a whole",
  }
  assert acceptance.KSeq.needs
  for name in acceptance.RULES:
    rule = acceptance.make_rule(name)
    if name in reasons:
      with pytest.raises(ValueError, match=reasons[name]):
        acceptance.check_pair(Tree(3), rule)
    else:
      acceptance.check_pair(Tree(3), rule)

  class Distinct(drafters.NGram):
    siblings = "without_replacement"

  with pytest.raises(ValueError, match="independent draws of one law"):
    acceptance.check_pair(Distinct(3), acceptance.KSeq())


def test_lossy_rules_say_so():
  ngram = drafters.NGram(3)
  for name, rule in acceptance.RULES.items():
    lossless = acceptance.is_lossless(ngram, rule())
    assert lossless != name.startswith(("biased_", "lossy_"))
  assert not acceptance.is_lossless(ngram, acceptance.LossyTypical())
  with pytest.raises(ValueError, match="unknown rule"):
    acceptance.make_rule("typical")
  with pytest.raises(ValueError, match="lenience"):
    acceptance.make_rule("lossy_lenience", lenience=0.0)
