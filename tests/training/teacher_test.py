"""Factored laws against numpy's softmax over small vocabularies."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from specjax.training import teacher as teachers
from specjax.training.types import Frozen, Teacher

SIZE = 7
SHAPE = (2, 3)


top_k = jax.jit(teachers.top_k, static_argnames="k")
dense = jax.jit(teachers.dense, static_argnames="vocab_size")
at_temperature = jax.jit(teachers.at_temperature, static_argnames="vocab_size")


def logits_of(seed, shape=SHAPE, size=SIZE, scale=2.0):
  rng = np.random.default_rng(seed)
  return jnp.asarray(rng.normal(0, scale, (*shape, size)), jnp.float32)


def softmax(logits, temperature=1.0):
  return special.softmax(np.asarray(logits, np.float64) / temperature, -1)


def mass(log_law):
  return np.exp(np.asarray(log_law, np.float64))


@pytest.mark.parametrize("k", [1, 3, SIZE])
def test_top_k_is_the_softmax_and_its_tail(k):
  logits = logits_of(k)
  p, made = softmax(logits), top_k(logits, k=k)
  ids = np.asarray(made.ids)
  np.testing.assert_allclose(
    mass(made.log_probs), np.take_along_axis(p, ids, -1), rtol=1e-5
  )
  order = np.argsort(-p, -1)
  assert (ids[..., 0] == order[..., 0]).all()
  assert (np.sort(ids, -1) == np.sort(order[..., :k], -1)).all()
  tail = 1 - np.take_along_axis(p, ids, -1).sum(-1)
  np.testing.assert_allclose(mass(made.log_tail), tail, rtol=1e-4, atol=1e-7)
  if k == SIZE:
    assert (np.asarray(made.log_tail) == -np.inf).all()
    np.testing.assert_allclose(mass(dense(made, vocab_size=SIZE)), p, rtol=1e-5)


def test_a_tail_far_below_rounding_keeps_its_mass():
  logits = logits_of(7).at[..., 4].set(80.0)
  made = top_k(logits, k=1)
  rest = np.delete(np.asarray(logits, np.float64), 4, -1)
  exact = special.logsumexp(rest, -1) - 80
  np.testing.assert_allclose(made.log_tail, exact, rtol=1e-5)
  assert not np.asarray(made.log_probs).any()


def test_ties_go_to_the_lowest_id():
  tied = jnp.zeros((*SHAPE, SIZE)).at[..., 2:4].set(1.0)
  for k in (3, SIZE):
    assert (np.asarray(top_k(tied, k=k).ids)[..., 0] == 2).all()


def test_k_is_refused_outside_the_vocabulary():
  for k in (0, SIZE + 1):
    with pytest.raises(ValueError, match=f"1 to {SIZE}"):
      teachers.top_k(logits_of(0), k)


@pytest.mark.parametrize("temperature", [0.3, 1.0, 1.7])
def test_a_full_law_is_exact_at_every_temperature(temperature):
  logits = logits_of(1)
  made = top_k(logits, k=SIZE)
  warm = at_temperature(made, temperature, vocab_size=SIZE)
  np.testing.assert_allclose(
    mass(dense(warm, vocab_size=SIZE)), softmax(logits, temperature), rtol=1e-4
  )


@pytest.mark.parametrize("temperature", [0.3, 1.0, 1.7])
@pytest.mark.parametrize("k", [1, 3])
def test_a_truncated_law_has_a_uniform_tail(k, temperature):
  """Spreading the tail and warming commute."""
  made = top_k(logits_of(2), k=k)
  warm = at_temperature(made, temperature, vocab_size=SIZE)
  spread = np.asarray(dense(made, vocab_size=SIZE), np.float64) / temperature
  np.testing.assert_allclose(
    mass(dense(warm, vocab_size=SIZE)), special.softmax(spread, -1), rtol=1e-4
  )
  total = mass(warm.log_probs).sum(-1) + mass(warm.log_tail)
  np.testing.assert_allclose(total, 1, rtol=1e-5)


def test_at_one_nothing_is_touched():
  made = top_k(logits_of(3), k=3)
  assert teachers.at_temperature(made, 1.0, SIZE) is made


def test_temperatures_that_are_none_are_refused():
  made = top_k(logits_of(3), k=3)
  for temperature in (0, -1.0):
    with pytest.raises(ValueError, match="above 0"):
      teachers.at_temperature(made, temperature, SIZE)


SAYABLE = jnp.asarray([5, 0, 3])


@pytest.mark.parametrize("k", [3, SIZE])
def test_the_reduced_vocabulary_keeps_every_mass(k):
  logits = logits_of(4)
  made = top_k(logits, k=k)
  draft = teachers.to_draft(made, teachers.inverse_ids(SAYABLE, SIZE))
  p, stored = softmax(logits), np.asarray(made.ids)
  named = np.isin(np.arange(SIZE), SAYABLE)
  for place in np.ndindex(*SHAPE):
    kept = {}
    for index in range(k):
      token = int(stored[place][index])
      if named[token]:
        new = int(draft.ids[place][index])
        assert int(SAYABLE[new]) == token
        kept[new] = p[place][token]
      else:
        assert int(draft.ids[place][index]) == 0
        assert float(draft.log_probs[place][index]) == -np.inf
    outside = sum(p[place][t] for t in stored[place] if not named[t])
    np.testing.assert_allclose(
      mass(draft.log_outside[place]), outside, rtol=1e-4, atol=1e-9
    )
    whole = sum(kept.values()) + outside + mass(made.log_tail[place])
    np.testing.assert_allclose(whole, 1, rtol=1e-5)
    if k == SIZE:
      law = mass(teachers.dense(draft, len(SAYABLE))[place])
      np.testing.assert_allclose(law, p[place][np.asarray(SAYABLE)], rtol=1e-4)


def test_a_vocabulary_is_reduced_once_and_last():
  draft_ids = teachers.inverse_ids(SAYABLE, SIZE)
  draft = teachers.to_draft(top_k(logits_of(5), k=3), draft_ids)
  with pytest.raises(ValueError, match="already"):
    teachers.to_draft(draft, draft_ids)
  with pytest.raises(ValueError, match="before"):
    teachers.at_temperature(draft, 2.0, SIZE)


def test_inverse_ids():
  found = teachers.inverse_ids(SAYABLE, SIZE)
  assert found.tolist() == [1, -1, -1, 2, -1, 0, -1]


def test_draft_ids_are_given_for_every_token_of_the_target():
  target = {"embed": {"embedding": jnp.zeros((SIZE, 2))}}
  wanted = teachers.inverse_ids(SAYABLE, SIZE).tolist()
  assert teachers.draft_ids_of(Frozen(target, SAYABLE)).tolist() == wanted
  own = target | {"head": {"kernel": jnp.zeros((SIZE, 2))}}
  assert teachers.draft_ids_of(Frozen(own, SAYABLE)).tolist() == wanted
  assert teachers.draft_ids_of(Frozen({}, None)) is None


def test_marks_only_the_ids_that_count():
  ids = jnp.asarray([[1, 0, 0], [2, 2, 3]])
  which = jnp.asarray([[True, False, False], [True, True, False]])
  found = teachers.mark(ids, which, 4).tolist()
  assert found == [[False, True, False, False], [False, False, True, False]]


def test_the_log_of_a_sum_of_nothing_has_no_slope():
  nothing = jnp.full((3,), -jnp.inf)
  value, slope = jax.value_and_grad(teachers.log_sum)(nothing)
  assert float(value) == -np.inf and not np.asarray(slope).any()
  value, slope = jax.value_and_grad(teachers.log_sum)(
    jnp.asarray([1.0, 2.0]), jnp.zeros(2, bool)
  )
  assert float(value) == -np.inf and not np.asarray(slope).any()


def test_any_leading_axes():
  logits = logits_of(6)
  whole = top_k(logits, k=3)
  one = top_k(logits[1, 2], k=3)
  for field in dataclasses.fields(Teacher):
    if (value := getattr(one, field.name)) is not None:
      np.testing.assert_array_equal(getattr(whole, field.name)[1, 2], value)
