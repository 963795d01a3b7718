"""The toy's pieces against what they are said to be, and its ordering."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from specjax.training import losses
from specjax.training import toy_realignment as toy

SHORT = dataclasses.replace(toy.Toy(), steps=300)


FEW = ("sft", "forward_kl", "total_variation", "on_policy_tv")


@pytest.fixture(scope="module")
def outcomes():
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(toy, "OBJECTIVES", {n: toy.OBJECTIVES[n] for n in FEW})
    return toy.compare(range(3), SHORT)


def test_a_world_is_what_it_says():
  world = toy.make_world(0, toy.Toy())
  moved = np.asarray(world.tuned - world.base)
  rows = np.abs(moved).sum(1) > 0
  assert rows.sum() == 32
  assert np.linalg.matrix_rank(moved, tol=1e-3) == toy.Toy().shift_rank
  logits = toy.logits_of(world.start)
  assert np.linalg.matrix_rank(np.asarray(logits), tol=1e-3) == toy.Toy().rank
  np.testing.assert_allclose(world.seen.sum(), 1, rtol=1e-5)


def test_the_text_is_the_targets():
  """Chi-square of the pairs that follow the commonest token."""
  made = dataclasses.replace(toy.Toy(), vocab_size=4, structure=2, text=20_000)
  world = toy.make_world(1, made)
  seen = np.asarray(world.seen, np.float64) * made.text
  last = seen.sum(1).argmax()
  law = special.softmax(np.asarray(world.tuned, np.float64)[last])
  found = stats.chisquare(seen[last], law * seen[last].sum())
  assert found.pvalue > 1e-4


def test_stationary():
  world = toy.make_world(2, toy.Toy())
  p = special.softmax(np.asarray(world.tuned, np.float64), -1)
  values, vectors = np.linalg.eig(p.T)
  law = np.real(vectors[:, np.abs(values - 1).argmin()])
  np.testing.assert_allclose(
    toy.stationary(world.tuned), law / law.sum(), atol=1e-4
  )


def test_sft_has_the_slope_of_the_texts_own_tokens():
  """Up to a constant it is the mean of `losses.sft` over the pairs."""
  made = dataclasses.replace(toy.Toy(), text=50)
  world = toy.make_world(3, made)
  draft = toy.logits_of(world.start)
  times = np.rint(np.asarray(world.seen) * made.text).astype(int)
  last, following = np.nonzero(times)
  again = times[last, following]
  last, following = np.repeat(last, again), np.repeat(following, again)
  assert len(last) == made.text

  def by_token(logits):
    tokens = jnp.asarray(following, jnp.int32)
    return losses.sft(logits[jnp.asarray(last)], tokens).mean()

  ours = jax.jit(jax.grad(toy.OBJECTIVES["sft"]))(draft, world)
  wanted = jax.jit(jax.grad(by_token))(draft)
  np.testing.assert_allclose(ours, wanted, atol=1e-6)


@pytest.mark.parametrize("name", toy.OBJECTIVES)
def test_the_target_itself_is_where_an_objective_ends(name):
  """0 with no slope, but for the text's own tokens, which are not the law."""
  world = toy.make_world(4, dataclasses.replace(toy.Toy(), vocab_size=8))
  best = np.log(world.seen / world.seen.sum(1, keepdims=True) + 1e-30)
  logits = jnp.asarray(best) if name == "sft" else world.tuned
  both = jax.jit(jax.value_and_grad(toy.OBJECTIVES[name]))
  value, slope = both(logits, world)
  np.testing.assert_allclose(value, 0, atol=1e-5)
  if "tv" not in name and name not in ("total_variation", "lk_alpha"):
    np.testing.assert_allclose(slope, 0, atol=1e-3)  # theirs has a kink there
  assert float(both(world.base, world)[0]) > 0.01


def test_a_draft_of_full_rank_becomes_the_target(outcomes):
  wide = dataclasses.replace(SHORT, rank=64)
  worlds = jax.tree.map(lambda leaf: leaf[None], toy.make_world(0, wide))
  found = toy.train(worlds.start, worlds, "forward_kl", wide)
  best = toy.measure(found, worlds).acceptance
  assert best.shape == (1,)
  assert best[0] > 0.97 > outcomes["forward_kl"].acceptance[0]


def test_what_is_measured_follows_from_acceptance(outcomes):
  for found in outcomes.values():
    powers = found.acceptance[:, None] ** np.arange(5)
    np.testing.assert_allclose(found.tokens, powers.sum(1), rtol=1e-5)
    assert (np.abs(found.long_run_tokens - found.tokens) < 0.3).all()
    assert ((found.agreement >= 0) & (found.agreement <= 1)).all()


def test_the_published_order(outcomes):
  """Stale, then text alone, then total variation, on the mean over seeds."""
  mean = {name: found.acceptance.mean() for name, found in outcomes.items()}
  assert mean["stale"] < mean["sft"] < mean["total_variation"]
  assert mean["sft"] < mean["forward_kl"]
  assert abs(mean["on_policy_tv"] - mean["total_variation"]) < 0.02


def test_intervals():
  values = np.asarray([0.1, 0.3, 0.2, 0.5])
  found = toy.interval(values)
  wanted = stats.t.interval(0.95, 3, values.mean(), stats.sem(values))
  np.testing.assert_allclose((found["low"], found["high"]), wanted)
  assert toy.interval(values[:1])["low"] is None


def test_gains_are_paired(outcomes):
  found = toy.gains(outcomes)
  assert "forward_kl" not in found
  paired = outcomes["sft"].acceptance - outcomes["forward_kl"].acceptance
  assert found["sft"] == toy.interval(paired)


def test_no_seed_is_refused():
  with pytest.raises(ValueError, match="one seed"):
    toy.compare([], SHORT)
