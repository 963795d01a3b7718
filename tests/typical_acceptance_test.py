"""Typical acceptance: the threshold, the longest path, greedy rows."""

import jax.numpy as jnp
import numpy as np
import pytest

from specjax import sampling
from specjax.acceptance import ExactMatch, LossyTypical
from tests import forests

V = 5
DEFAULT = LossyTypical()
BATCH, NODES = 512, 6  # of every program here
PARENTS = (0, 0, 1, 1, 2, 3)  # slots 1 .. 6: 6 is below 3, 5 below 2


def _forest(tokens, p, parents=PARENTS, count=NODES) -> forests.Forest:
  """The same draft in every row, or one a row."""
  shape = (BATCH, NODES)
  return forests.Forest(
    parents=np.broadcast_to(np.asarray(parents), shape),
    tokens=np.broadcast_to(np.asarray(tokens), shape),
    count=np.full((BATCH,), count),
    p=np.broadcast_to(np.asarray(p), (BATCH, NODES + 1, V)),
    q=np.zeros((*shape, V)),
    siblings="point",
  )


def _judge(forest, rule=DEFAULT) -> forests.Judged:
  keys = forests.streams(BATCH, 5)
  proposal = forest.proposal(depth=3, riders=1)
  return forests.judge(rule, proposal, forest.target(riders=1), keys)


def _threshold(law, epsilon=0.09, delta=0.3):
  entropy = -sum(x * np.log(x) for x in law if x > 0)
  return min(epsilon, delta * np.exp(-entropy))


def test_a_token_is_kept_above_the_threshold_of_its_parents_law():
  """Each token of random laws, narrow and broad, on either side of it."""
  rng = np.random.default_rng(0)
  p = rng.dirichlet(np.full(V, 0.3), (BATCH, NODES + 1))
  p[::4] = rng.dirichlet(np.full(V, 30.0), (BATCH // 4, NODES + 1))
  tokens = rng.integers(0, V, (BATCH, NODES))
  forest = _forest(tokens, p, parents=(0,) * NODES, count=1)
  for rule in (DEFAULT, LossyTypical(0.25, 0.5)):
    verdict = _judge(forest, rule)
    limit = [_threshold(law, rule.epsilon, rule.delta) for law in p[:, 0]]
    chance = p[np.arange(BATCH), 0, tokens[:, 0]]
    assert (verdict.accepted == (chance > limit)).all()
    assert 0.2 < verdict.accepted.mean() < 0.9
    assert np.asarray(limit).min() < rule.epsilon == np.asarray(limit).max()


def test_the_longest_path_wins_then_the_likeliest_and_p_at_its_end_is_drawn():
  p = np.zeros((NODES + 1, V))
  p[:, :] = (0.5, 0.4, 0.1, 0, 0)
  p[6], p[5] = np.eye(V)[4], np.eye(V)[3]
  tokens = np.asarray([0, 1, 1, 0, 0, 0])
  # 0.5 * 0.4 * 0.5 to slot 6 is as long as no other path.
  verdict = _judge(_forest(tokens, p))
  assert (verdict.slots == (0, 1, 3, 6)).all()
  assert (verdict.accepted == 3).all() and (verdict.next_token == 4).all()
  # Without slot 6: 0.5 * 0.5 to slot 4 is likelier than to slots 3 and 5.
  verdict = _judge(_forest(tokens, p, count=5))
  assert (verdict.slots == (0, 1, 4, 4)).all()
  # The only path through slot 2, for slot 1 is not typical.
  verdict = _judge(_forest([4, 1, 1, 0, 0, 0], p, count=5))
  assert (verdict.slots == (0, 2, 5, 5)).all()
  assert (verdict.next_token == 3).all()
  assert (_judge(_forest(tokens, p, count=0)).slots == 0).all()


def test_the_extra_token_is_drawn_by_the_number_of_its_depth():
  p = np.tile([0.5, 0.4, 0.1, 0, 0], (NODES + 1, 1))
  verdict = _judge(_forest([0, 4, 4, 4, 4, 4], p))
  node = jnp.ones((BATCH, 1), jnp.int32)
  keys = forests.streams(BATCH, 5)
  u = np.asarray(sampling.round_uniform(keys, sampling.Purpose.RECOVER, node))
  assert (verdict.accepted == 1).all()
  assert (
    verdict.next_token == (u > 0.5).astype(int)[:, 0] + (u > 0.9)[:, 0]
  ).all()


def test_greedy_rows_are_plain_decoding_beside_sampled_ones():
  rng = np.random.default_rng(3)
  p = rng.dirichlet(np.ones(V), (BATCH, NODES + 1))
  p[1::2] = np.eye(V)[p[1::2].argmax(-1)]
  tokens = rng.integers(0, V, (BATCH, NODES))
  forest = _forest(tokens, p)
  typical, exact = _judge(forest), _judge(forest, ExactMatch())
  assert forests.same(typical, exact, slice(1, None, 2))
  assert (typical.accepted[::2] > exact.accepted[::2]).mean() > 0.1
  assert set(np.unique(typical.accepted[1::2])) >= {0, 1, 2}


@pytest.mark.parametrize("value", [0.0, -0.1, 1.5, float("nan")])
def test_thresholds_out_of_range_are_refused(value):
  with pytest.raises(ValueError, match="epsilon"):
    LossyTypical(epsilon=value)
  with pytest.raises(ValueError, match="delta"):
    LossyTypical(delta=value)
