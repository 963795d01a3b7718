"""Divergences against dense float64 definitions, values and slopes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial import distance

from specjax.training import losses
from specjax.training import teacher as teachers
from specjax.training.divergences import lump
from tests.training.dense_laws import (
  DENSE,
  FUNCTIONS,
  OF_LAWS,
  SAYABLE,
  SHAPE,
  SIZE,
  WEIGHT,
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


@pytest.mark.parametrize("name", OF_LAWS)
def test_full_laws_against_the_dense_definition(name):
  for seed in range(4):
    logits, target = case(seed)
    ours = value_of(name, logits, make_top_k(target, k=SIZE))
    wanted = DENSE[name](softmax(target), softmax(logits))
    np.testing.assert_allclose(ours, wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", OF_LAWS)
def test_a_tail_is_one_more_atom_and_bounds_the_whole(name):
  """Data processing: merging tokens never makes two laws differ more."""
  for seed in range(4):
    logits, target = case(seed)
    p, q, teacher = softmax(target), softmax(logits), make_top_k(target, k=3)
    ours = value_of(name, logits, teacher)
    wanted = DENSE[name](by_atoms(p, teacher), by_atoms(q, teacher))
    np.testing.assert_allclose(ours, wanted, rtol=1e-4, atol=1e-6)
    whole = DENSE[name](p, q)
    assert (ours <= whole * (1 + 1e-5) + 1e-6).all()
    assert (ours < whole - 1e-4).any()


@pytest.mark.parametrize("name", OF_LAWS)
def test_taking_the_tails_mass_away_is_never_rewarded(name):
  """From q = p on, all of the tail's mass is moved to the named tokens."""
  _, target = case(9)
  teacher = make_top_k(target, k=3)
  p = softmax(target)
  rest = ~np.asarray(teachers.mark(teacher.ids, jnp.ones((*SHAPE, 3), bool), 7))
  before = np.full(SHAPE, -1e-6)
  for share in (0.0, 0.3, 0.7, 0.99):
    q = np.where(rest, p * (1 - share), p)
    gained = 1 - q.sum(-1, keepdims=True)
    q = np.where(
      rest, q, q * (1 + gained / np.where(rest, 0, q).sum(-1)[..., None])
    )
    ours = value_of(name, jnp.asarray(np.log(q), jnp.float32), teacher)
    np.testing.assert_allclose(ours, DENSE[name](p, q), rtol=1e-3, atol=1e-5)
    assert (ours > before).all(), share
    before = ours


def test_total_variations_slope_is_the_closed_form():
  """q (g - <g, q>), g = -1[q < p]; a constant in g drops out."""
  for seed, k in ((0, SIZE), (1, 3)):
    logits, target = case(seed)
    teacher = make_top_k(target, k=k)
    slope = sum_slope("total_variation", logits, teacher)
    p, q = softmax(target), softmax(logits)
    if k < SIZE:  # a tail's tokens share one sign
      named = np.asarray(teacher.ids)
      tail_p = 1 - np.take_along_axis(p, named, -1).sum(-1, keepdims=True)
      tail_q = 1 - np.take_along_axis(q, named, -1).sum(-1, keepdims=True)
      under = np.broadcast_to(tail_q < tail_p, p.shape).copy()
      np.put_along_axis(under, named, np.take_along_axis(q < p, named, -1), -1)
    else:
      under = q < p
    g = -under.astype(np.float64)
    wanted = q * (g - (g * q).sum(-1, keepdims=True))
    np.testing.assert_allclose(slope, wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("k", [3, SIZE])
@pytest.mark.parametrize("name", OF_LAWS)
def test_slopes_against_differences_of_the_dense_definition(name, k):
  logits, target = case(3)
  teacher = make_top_k(target, k=k)
  slope = sum_slope(name, logits, teacher)
  p = by_atoms(softmax(target), teacher) if k < SIZE else softmax(target)

  def dense(z):
    q = softmax(z)
    return DENSE[name](p, by_atoms(q, teacher) if k < SIZE else q).sum()

  start, step = np.asarray(logits, np.float64), 1e-5
  for place in [(0, 0, 0), (1, 2, 3), (0, 4, 6), (1, 0, 5)]:
    move = np.zeros(start.shape)
    move[place] = step
    wanted = (dense(start + move) - dense(start - move)) / (2 * step)
    np.testing.assert_allclose(slope[place], wanted, rtol=1e-3, atol=1e-5)


def test_jsd_between_the_two_divergences():
  jsd = jax.jit(losses.jsd)
  logits, target = case(4)
  p, q = softmax(target), softmax(logits)
  full = make_top_k(target, k=SIZE)
  half = np.asarray(jsd(logits, full, 0.5))
  metric = [
    distance.jensenshannon(a, b) ** 2
    for a, b in zip(p.reshape(-1, SIZE), q.reshape(-1, SIZE), strict=True)
  ]
  np.testing.assert_allclose(half.reshape(-1), metric, rtol=1e-4)
  swapped = jsd(target, make_top_k(logits, k=SIZE), 0.5)
  np.testing.assert_allclose(half, swapped, rtol=1e-4)
  small = 1e-4
  np.testing.assert_allclose(jsd(logits, full, small) / small, kl(p, q), 0.03)
  reverse = jsd(logits, full, 1 - small) / small
  np.testing.assert_allclose(reverse, kl(q, p), 0.03)


KL_LIKE = ["forward_kl", "reverse_kl", "jsd"]


@pytest.mark.parametrize("name", OF_LAWS)
def test_a_reduced_vocabulary(name):
  """KL of p over what can be said; total variation of p as it is."""
  logits, target = case(7, size=SIZE)
  logits = logits[..., : len(SAYABLE)]
  draft_ids = teachers.inverse_ids(SAYABLE, SIZE)
  full = teachers.to_draft(make_top_k(target, k=SIZE), draft_ids)
  p, q = softmax(target)[..., np.asarray(SAYABLE)], softmax(logits)
  inside = p / p.sum(-1, keepdims=True)
  forward, refused = kl(inside, q), 1 - kept(p, q)
  wanted = {
    "forward_kl": forward,
    "reverse_kl": kl(q, inside),
    "jsd": mixed(inside, q),
    "total_variation": refused,
    "lk_alpha": -np.log(kept(p, q)),
    "lk_lambda": WEIGHT * forward + (1 - WEIGHT) * refused,
  }[name]
  ours = value_of(name, logits, full)
  np.testing.assert_allclose(ours, wanted, rtol=1e-4, atol=1e-6)


def test_a_law_that_cannot_be_said_teaches_nothing_by_kl():
  logits, target = case(8)
  logits = logits[..., : len(SAYABLE)]
  none = jnp.full((SIZE,), -1, jnp.int32)
  nothing = teachers.to_draft(make_top_k(target, k=SIZE), none)
  for name in KL_LIKE:
    assert not value_of(name, logits, nothing).any(), name
    assert not sum_slope(name, logits, nothing).any(), name
  refused = value_of("total_variation", logits, nothing)
  np.testing.assert_allclose(refused, 1, rtol=1e-6)


# What the draft and what the target rules out.
IMPOSSIBLES = [
  ((0, 3), (1,)),
  ((0, 1, 2, 3, 4, 5), ()),
  ((), (0, 1, 2, 3, 4, 5)),
  ((0, 1, 2), (3, 4, 5, 6)),
  ((), (2,)),
]


@pytest.mark.parametrize("name", OF_LAWS)
@pytest.mark.parametrize("k", [3, SIZE])
def test_impossible_tokens_give_finite_values_and_slopes(name, k):
  draft, law = (np.asarray(logits).copy() for logits in case(10))
  draft[1] *= 1e4
  for place, (ours, theirs) in enumerate(IMPOSSIBLES):
    draft[:, place, list(ours)] = -np.inf
    law[:, place, list(theirs)] = -np.inf
  teacher = make_top_k(jnp.asarray(law), k=k)
  draft = jnp.asarray(draft)
  values, slope = (
    value_of(name, draft, teacher),
    sum_slope(name, draft, teacher),
  )
  assert np.isfinite(values).all() and np.isfinite(slope).all()
  assert not slope[np.asarray(draft) == -np.inf].any()
  assert values[0, 3] == pytest.approx(
    {
      "total_variation": 1,
      "jsd": -0.3 * np.log(0.3) - 0.7 * np.log(0.7),
    }.get(name, values[0, 3])
  )


def test_a_hopeless_draft_still_has_a_slope():
  """The kept mass underflows; its logarithm does not."""
  logits = jnp.zeros((*SHAPE, SIZE)).at[..., 1].set(300.0)
  teacher = make_top_k(jnp.zeros((*SHAPE, SIZE)).at[..., 0].set(300.0), k=SIZE)
  values = value_of("lk_alpha", logits, teacher)
  assert (values > 250).all() and (values < 310).all()
  assert (sum_slope("lk_alpha", logits, teacher)[..., 1] > 0.4).all()


def test_the_teacher_is_a_constant():
  logits, target = case(12)

  @jax.jit
  @jax.grad
  def slope(t):
    teacher = teachers.top_k(t, 3)
    return sum(loss(logits, teacher).sum() for loss in FUNCTIONS.values())

  assert not np.asarray(slope(target)).any()


def test_a_drafts_law_sums_to_one_over_its_atoms():
  logits, target = case(20)
  for k in (3, SIZE):
    laws = jax.jit(lump)(logits, make_top_k(target, k=k))
    np.testing.assert_allclose(np.exp(laws.log_q).sum(-1), 1, rtol=1e-5)
    np.testing.assert_allclose(np.exp(laws.log_p).sum(-1), 1, rtol=1e-5)


def test_descent_on_any_loss_reaches_the_target():
  """Where the draft can be the target, every loss leads there."""
  _, target = case(21)
  teacher = make_top_k(target, k=SIZE)
  for name in OF_LAWS:
    logits = jnp.zeros((*SHAPE, SIZE))
    for step in range(300):
      logits -= 3.0 * 0.99**step * sum_slope(name, logits, teacher)
    refused = value_of("total_variation", logits, teacher)
    assert refused.max() < 0.05, name
