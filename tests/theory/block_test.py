"""Block verification's toy values, and both rules enumerated in numpy."""

import itertools

import jax
import numpy as np
import pytest

from specjax.theory import block, speedup

token_rule = jax.jit(block.token_rule_tokens, static_argnums=3)
block_rule = jax.jit(block.block_rule_tokens, static_argnums=3)


def test_printed_toy():
  p, q = np.asarray([[1 / 3, 2 / 3]] * 2), np.asarray([[2 / 3, 1 / 3]] * 2)
  ours = (
    token_rule(p, q, 0, 2),
    block_rule(p, q, 0, 2),
  )
  np.testing.assert_allclose(ours, [1 + 10 / 9, 1 + 11 / 9], rtol=1e-6)


def test_toy_of_the_walkthrough():
  setup = np.random.default_rng(2)
  p = setup.dirichlet(np.ones(4), size=4)
  q = 0.55 * p + 0.45 * setup.dirichlet(np.ones(4), size=4)
  token = [float(token_rule(p, q, 0, g)) for g in (1, 2, 3, 4)]
  blocks = [float(block_rule(p, q, 0, g)) for g in (1, 2, 3, 4)]
  np.testing.assert_allclose(token, [1.6717, 2.2105, 2.6283, 2.9514], atol=6e-5)
  np.testing.assert_allclose(
    blocks, [1.6717, 2.2806, 2.8250, 3.2961], atol=6e-5
  )


def _play_blocks(p, q, start, gamma):
  """Expected tokens from the rule's own thresholds h_i, draft by draft."""
  total = 0.0
  for draft in itertools.product(range(len(p)), repeat=gamma):
    chance, last, ratio, keep = 1.0, start, 1.0, []
    for i, token in enumerate(draft, 1):
      chance *= q[last, token]
      ratio = min(1.0, ratio * p[last, token] / q[last, token])
      last = token
      left = np.maximum(ratio * p[last] - q[last], 0).sum()
      below = left + 1 - ratio
      threshold = left / below if below > 0 else 1.0
      keep.append(ratio if i == gamma else threshold)
    # The last success counts, so the draft's tail is refused in turn.
    mean, tail = 0.0, 1.0
    for i in range(gamma, 0, -1):
      mean += i * keep[i - 1] * tail
      tail *= 1 - keep[i - 1]
    total += chance * mean
  return 1 + total


def test_rules_played_out():
  rng = np.random.default_rng(3)
  p, q = rng.dirichlet(np.ones(3), 3), rng.dirichlet(np.ones(3), 3)
  for start, gamma in ((0, 1), (1, 2), (2, 3), (0, 4)):
    ours = float(block_rule(p, q, start, gamma))
    assert ours == pytest.approx(_play_blocks(p, q, start, gamma), rel=1e-5)
    assert ours >= float(token_rule(p, q, start, gamma)) - 1e-6


def test_laws_without_memory_give_equation_1():
  p, q = np.asarray([[0.6, 0.3, 0.1]] * 3), np.asarray([[0.3, 0.6, 0.1]] * 3)
  ours = float(token_rule(p, q, 1, 5))
  assert ours == pytest.approx(float(speedup.tokens_per_pass(0.7, 5)))


def test_a_perfect_draft_keeps_everything():
  p = np.random.default_rng(4).dirichlet(np.ones(3), 3)
  for rule in (token_rule, block_rule):
    assert float(rule(p, p, 0, 4)) == pytest.approx(5.0)


def test_rounds_of_one_long_text():
  """A plain loop of 200,000 rounds; eq. 1 holds where laws have no memory."""
  rng = np.random.default_rng(6)
  p, q = rng.dirichlet(np.full(3, 0.4), 3), rng.dirichlet(np.full(3, 0.4), 3)
  rows, last, found = 2000, np.zeros(2000, np.int64), []

  def draw(laws):
    return (np.cumsum(laws, -1) < rng.random((rows, 1))).sum(-1).clip(max=2)

  for _ in range(100):
    running, kept = np.ones(rows, bool), np.zeros(rows, np.int64)
    for _ in range(3):
      token = draw(q[last])
      keep = rng.random(rows) * q[last, token] < p[last, token]
      left = np.maximum(p - q, 0)[last]
      left /= np.maximum(left.sum(-1, keepdims=True), 1e-300)
      other = draw(left)
      last = np.where(running, np.where(keep, token, other), last)
      running &= keep
      kept += running
    last = np.where(running, draw(p[last]), last)
    found.append(kept + 1)
  ours = float(jax.jit(block.long_run_tokens, static_argnums=2)(p, q, 3))
  assert ours == pytest.approx(np.mean(found[20:]), abs=0.01)
  p, q = np.asarray([[0.6, 0.3, 0.1]] * 3), np.asarray([[0.3, 0.6, 0.1]] * 3)
  ours = float(block.long_run_tokens(p, q, 5))
  assert ours == pytest.approx(float(speedup.tokens_per_pass(0.7, 5)))
