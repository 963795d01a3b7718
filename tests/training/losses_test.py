"""Losses by name: masks, temperatures, tokens, and what they must never do."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specjax.training import losses
from specjax.training import teacher as teachers
from specjax.training.divergences import IMPOSSIBLE, lk_weight
from specjax.training.types import Teacher
from tests.training.dense_laws import (
  DENSE,
  OF_LAWS,
  SAYABLE,
  SHAPE,
  SIZE,
  by_atoms,
  case,
  kept,
  kl,
  make_top_k,
  mixed,
  softmax,
  sum_slope,
  value_of,
)

NAMES = [*losses.LOSSES]


def test_sft_is_forward_kl_to_the_law_of_the_texts():
  """Its mean slope is that of KL from the tokens' frequencies."""
  rng = np.random.default_rng(5)
  logits, _ = case(5)
  count = 50
  tokens = jnp.asarray(rng.integers(0, SIZE, (*SHAPE, count)), jnp.int32)
  often = (np.asarray(tokens)[..., None] == np.arange(SIZE)).mean(-2)
  with np.errstate(divide="ignore"):
    law = jnp.asarray(np.log(often), jnp.float32)

  @jax.jit
  @jax.value_and_grad
  def total(z):
    each = jnp.broadcast_to(z[..., None, :], (*SHAPE, count, SIZE))
    return losses.sft(each, tokens).mean(-1).sum()

  value, slope = total(logits)
  wanted = -(often * np.log(softmax(logits))).sum()
  np.testing.assert_allclose(value, wanted, rtol=1e-5)
  other = sum_slope("forward_kl", logits, make_top_k(law, k=SIZE))
  np.testing.assert_allclose(slope, other, rtol=1e-4, atol=1e-6)


def test_feature_regression():
  rng = np.random.default_rng(6)
  ours, wanted = rng.normal(0, 1.5, (2, 3, 8))
  gap = np.abs(ours - wanted)
  smooth = np.where(gap < 1, gap**2 / 2, gap - 0.5).mean(-1)
  found = losses.feature_regression(jnp.asarray(ours), jnp.asarray(wanted))
  np.testing.assert_allclose(found, smooth, rtol=1e-5)


def test_sft_of_an_impossible_token():
  logits, _ = case(11, shape=())
  value, slope = jax.value_and_grad(losses.sft)(
    logits.at[2].set(-jnp.inf), jnp.asarray(2)
  )
  assert float(value) == -IMPOSSIBLE and not np.asarray(slope).any()


def batch_of(seed):
  """(logits, teacher, tokens, mask) of two texts."""
  logits, target = case(seed)
  rng = np.random.default_rng(seed)
  tokens = jnp.asarray(rng.integers(0, SIZE, SHAPE), jnp.int32)
  mask = jnp.asarray(rng.random(SHAPE) < 0.6)
  return logits, make_top_k(target, k=3), tokens, mask


@functools.partial(jax.jit, static_argnums=0)
def slope_of(loss, *batch, mean_acceptance=None):
  """(the sum, its slope in the logits)."""

  def total(z):
    found = loss(z, *batch[1:], mean_acceptance=mean_acceptance)
    return found.total, found

  slope, found = jax.grad(total, has_aux=True)(batch[0])
  return found, slope


@pytest.mark.parametrize("name", NAMES)
def test_masked_positions_add_exactly_nothing(name):
  """Whatever stands there, not finite numbers included."""
  loss = losses.parse(name, temperature=1.5)
  logits, teacher, tokens, mask = batch_of(13)
  found, slope = slope_of(loss, logits, teacher, tokens, mask)
  assert float(found.count) == int(mask.sum())
  for bad in (jnp.nan, jnp.inf, -jnp.inf):
    spoilt = jnp.where(mask[..., None], logits, bad)
    broken = Teacher(
      teacher.ids,
      jnp.where(mask[..., None], teacher.log_probs, bad),
      jnp.where(mask, teacher.log_tail, bad),
    )
    out = jnp.where(mask, tokens, 10 * SIZE)
    again, other = slope_of(loss, spoilt, broken, out, mask)
    assert float(again.total) == float(found.total)
    np.testing.assert_array_equal(other, slope)
    assert not np.asarray(other)[~np.asarray(mask)].any()
  none = jnp.zeros(SHAPE, bool)
  found, slope = slope_of(loss, spoilt, broken, out, none)
  assert float(found.total) == float(found.count) == float(found.mean()) == 0
  assert not np.asarray(slope).any()


@pytest.mark.parametrize("name", NAMES)
def test_padding_and_splitting_change_nothing(name):
  """The texts one by one, each with padding in place of the other."""
  loss = losses.parse(name, temperature=1.5)
  batch = batch_of(15)
  given = jnp.float32(0.4) if name == "lk_lambda" else None
  whole, slope = slope_of(loss, *batch, mean_acceptance=given)

  def alone(row):
    def cut(values):
      return jnp.zeros_like(values).at[1 - row].set(values[row])

    return slope_of(loss, *jax.tree.map(cut, batch), mean_acceptance=given)

  (first, one), (second, other) = alone(0), alone(1)
  np.testing.assert_allclose((first + second).total, whole.total, rtol=1e-6)
  assert float((first + second).count) == float(whole.count)
  np.testing.assert_allclose(
    jnp.stack([one[1], other[0]]), slope, rtol=1e-6, atol=1e-7
  )


def test_masked_sum_alone():
  values = jnp.asarray([1.0, jnp.nan, 3.0, jnp.inf])
  mask = jnp.asarray([True, False, True, False])
  found = losses.masked_sum(values, mask)
  assert (float(found.total), float(found.count)) == (4.0, 2.0)
  slope = jax.grad(lambda v: losses.masked_sum(v, mask).total)(values)
  assert slope.tolist() == [1.0, 0.0, 1.0, 0.0]


@pytest.mark.parametrize("name", OF_LAWS)
def test_a_temperature_is_both_laws(name):
  """And the tail is spread evenly before it is applied to p."""
  loss = losses.parse(name, temperature=1.5)
  settings = losses.LOSSES[name].settings
  logits, teacher, tokens, mask = batch_of(16)
  ours, _ = slope_of(loss, logits, teacher, tokens, mask)
  p = by_atoms(softmax(teachers.dense(teacher, SIZE), 1.5), teacher)
  q = by_atoms(softmax(logits, 1.5), teacher)
  p, q = p[np.asarray(mask)], q[np.asarray(mask)]
  if name == "lk_lambda":
    a = kept(p, q).mean()
    w = settings["kl_scale"] * np.exp(-settings["kl_decay"] * a)
    wanted = w * kl(p, q) + (1 - w) * (1 - kept(p, q))
  elif name == "jsd":
    wanted = mixed(p, q, 0.5)
  else:
    wanted = DENSE[name](p, q)
  np.testing.assert_allclose(ours.mean(), wanted.mean(), rtol=1e-4)


def test_no_slope_goes_through_lk_lambdas_weight():
  logits, teacher, tokens, mask = batch_of(17)
  loss = losses.parse("lk_lambda:0.9,2")
  refused = value_of("total_variation", logits, teacher)
  kept_ = 1 - refused[np.asarray(mask)].mean()
  _, slope = slope_of(loss, logits, teacher, tokens, mask)
  weight = lk_weight(kept_, 0.9, 2.0)

  @jax.jit
  @jax.grad
  def fixed(z):
    values = losses.lk_lambda(z, teacher, weight)
    return losses.masked_sum(values, mask).total

  np.testing.assert_allclose(slope, fixed(logits), rtol=1e-4, atol=1e-7)


def test_sft_in_a_reduced_vocabulary_counts_what_can_be_said():
  loss = losses.parse("sft")
  logits, teacher, tokens, mask = batch_of(18)
  logits = logits[..., : len(SAYABLE)]
  draft_ids = teachers.inverse_ids(SAYABLE, SIZE)
  found = jax.jit(loss)(logits, teacher, tokens, mask, draft_ids)
  total, count = 0.0, 0
  q = softmax(logits)
  for place in np.argwhere(np.asarray(mask)):
    draft = int(draft_ids[tokens[tuple(place)]])
    if draft >= 0:
      total, count = total - np.log(q[tuple(place)][draft]), count + 1
  assert 0 < count < int(mask.sum())
  assert float(found.count) == count
  np.testing.assert_allclose(found.total, total, rtol=1e-5)


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0])
def test_acceptance(temperature):
  acceptance = jax.jit(losses.acceptance)
  logits, target = case(19)
  draft_ids = teachers.inverse_ids(SAYABLE, SIZE)
  some = np.asarray(SAYABLE)
  reduced = logits[..., : len(SAYABLE)]
  q_small = np.zeros((*SHAPE, SIZE))
  q_small[..., some] = softmax(reduced, temperature or 1)
  for k in (3, SIZE):
    teacher = make_top_k(target, k=k)
    whole = acceptance(logits, teacher, temperature)
    small = acceptance(reduced, teacher, temperature, draft_ids)
    if temperature == 0:
      best = np.asarray(target).argmax(-1)
      np.testing.assert_array_equal(
        whole, np.asarray(logits).argmax(-1) == best
      )
      np.testing.assert_array_equal(
        small, some[np.asarray(reduced).argmax(-1)] == best
      )
      continue
    p, q = softmax(target, temperature), softmax(logits, temperature)
    if k == SIZE:
      np.testing.assert_allclose(whole, kept(p, q), rtol=1e-4)
      np.testing.assert_allclose(small, kept(p, q_small), rtol=1e-4)
    elif temperature == 1:
      most = 1 - value_of("total_variation", logits, teacher)
      assert (np.asarray(whole) <= most + 1e-6).all()
      assert (np.asarray(whole) <= kept(p, q) + 1e-6).all()


def test_names():
  assert losses.parse("jsd") == losses.parse("jsd:0.5")
  assert losses.parse("lk_lambda:0.5").settings == (0.5, 1.0)
  assert losses.parse("forward_kl", 2.0).temperature == 2.0
  assert hash(losses.parse("sft")) == hash(losses.parse("sft"))
  for text, why in {
    "tvd": "known: sft, forward_kl",
    "jsd:0": "forward_kl or reverse_kl",
    "jsd:1.5": "inside",
    "jsd:x": "numbers",
    "jsd:0.5,0.5": "takes beta",
    "sft:1": "takes no settings",
    "lk_lambda:2": "kl_scale",
    "lk_lambda:1,-1": "kl_decay",
  }.items():
    with pytest.raises(ValueError, match=why):
      losses.parse(text)
  with pytest.raises(ValueError, match="temperature"):
    losses.parse("sft", 0.0)
