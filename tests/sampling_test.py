"""Laws against an independent sort, draws, and the random streams."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specjax import sampling
from specjax.sampling import Purpose
from specjax.types import Streams


def reference_law(logits, temperature, top_k, top_p, min_p):
  """transformers' order of filters, by sorting in float64; ties kept."""
  x = np.asarray(logits, np.float64)
  x = np.where(np.isnan(x), -np.inf, x)
  if temperature == 0:
    return np.eye(len(x))[int(np.argmax(x))]
  x = x / temperature
  x = x - x.max()
  if 0 < top_k < len(x):
    x = np.where(x >= np.sort(x)[-top_k], x, -np.inf)
  if top_p < 1:
    order = np.sort(x)[::-1]
    mass = np.cumsum(np.exp(order)) / np.exp(order).sum()
    least = order[int(np.argmax(mass >= top_p))]
    x = np.where(x >= least, x, -np.inf)
  if min_p > 0:
    x = np.where(np.exp(x) >= min_p, x, -np.inf)
  weights = np.exp(x)
  return weights / weights.sum()


def law_of(logits, **settings):
  logits = jnp.asarray(logits, jnp.float32)[None, None]
  law = sampling.make_law(logits, sampling.make_sampling(1, **settings))
  return law, np.asarray(sampling.dense(law))[0, 0]


@pytest.mark.parametrize("top_k", [0, 1, 3, 50, 1000])
@pytest.mark.parametrize("top_p", [0.05, 0.6, 0.95, 1.0])
@pytest.mark.parametrize("min_p", [0.0, 0.2])
def test_filters_equal_those_of_a_sort(top_k, top_p, min_p):
  rng = np.random.default_rng(top_k)
  logits = rng.normal(0, 3, 200).astype(np.float32)
  settings = dict(temperature=0.7, top_k=top_k, top_p=top_p, min_p=min_p)
  _, dense = law_of(logits, **settings)
  expected = reference_law(logits, **settings)
  assert ((dense > 0) == (expected > 0)).all()
  np.testing.assert_allclose(dense, expected, rtol=2e-5, atol=1e-9)


def test_rows_of_one_batch_have_their_own_filters():
  logits = np.random.default_rng(0).normal(0, 2, (4, 2, 30))
  settings = [
    dict(temperature=0.0, top_k=5, top_p=0.5, min_p=0.5),
    dict(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0),
    dict(temperature=0.5, top_k=4, top_p=1.0, min_p=0.0),
    dict(temperature=2.0, top_k=0, top_p=0.8, min_p=0.1),
  ]
  joined = {key: [s[key] for s in settings] for key in settings[0]}
  law = sampling.make_law(
    jnp.asarray(logits, jnp.float32), sampling.make_sampling(4, **joined)
  )
  dense = np.asarray(sampling.dense(law))
  for b, s in enumerate(settings):
    for u in range(2):
      expected = reference_law(logits[b, u].astype(np.float32), **s)
      np.testing.assert_allclose(dense[b, u], expected, rtol=1e-4, atol=1e-9)


def test_ties_at_a_cutoff_are_kept_and_the_lowest_id_is_the_argmax():
  logits = [1.0, 3.0, 3.0, 3.0, 0.0]
  _, dense = law_of(logits, temperature=1.0, top_k=2)
  np.testing.assert_allclose(dense, [0, 1 / 3, 1 / 3, 1 / 3, 0], rtol=1e-6)
  _, dense = law_of(logits)
  assert dense.tolist() == [0, 1, 0, 0, 0]


@pytest.mark.parametrize(
  "logits, expected",
  [
    ([np.nan, 0.0, np.nan], [0, 1, 0]),
    ([-np.inf, -np.inf, 0.0], [0, 0, 1]),
    ([np.nan, np.nan, np.nan], [1, 0, 0]),
    ([-np.inf, -np.inf, -np.inf], [1, 0, 0]),
    ([1e4, -1e4, 1e4], [0.5, 0, 0.5]),
    ([np.inf, 0.0, -np.inf], [1, 0, 0]),
  ],
)
@pytest.mark.parametrize("filters", [{}, dict(top_k=2, top_p=0.99, min_p=0.1)])
def test_strange_logits_make_a_law(logits, expected, filters):
  _, dense = law_of(logits, temperature=1.0, **filters)
  np.testing.assert_allclose(dense, expected, rtol=1e-6)


def test_a_tiny_temperature_is_almost_greedy():
  _, dense = law_of([1.0, 1.0 + 1e-6, 0.0], temperature=1e-8)
  assert dense.tolist() == [0, 1, 0]


def test_probabilities_of_tokens_are_those_of_the_dense_law():
  logits = jnp.asarray(np.random.default_rng(1).normal(0, 2, (3, 4, 9)))
  law = sampling.make_law(logits, sampling.make_sampling(3, temperature=1.0))
  row = jnp.asarray([[0, 3], [2, 2], [1, 0]])
  token = jnp.asarray([[8, 0], [1, 2], [4, 4]])
  dense = np.asarray(sampling.dense(law))
  got = np.asarray(sampling.prob(law, row, token))
  one = np.asarray(sampling.dense(law, row[:, 0]))
  for b in range(3):
    np.testing.assert_array_equal(one[b], dense[b, int(row[b, 0])])
    for k in range(2):
      expected = dense[b, int(row[b, k]), int(token[b, k])]
      assert got[b, k] == pytest.approx(expected, rel=1e-6)


def test_a_draw_never_has_weight_zero():
  rng = np.random.default_rng(0)
  weights = rng.random((400, 600)).astype(np.float32) ** 8
  weights[rng.random(weights.shape) < 0.8] = 0.0
  weights[:, -3:] = 0.0
  for u in (0.0, 0.3, 1 - 2.0**-23, 1 - 2.0**-24):
    tokens = sampling.inverse_cdf(
      jnp.asarray(weights), jnp.full((400,), u, jnp.float32)
    )
    assert (np.take_along_axis(weights, tokens[:, None], 1) > 0).all()


def test_inverse_cdf_takes_the_token_that_the_number_falls_in():
  weights = jnp.asarray([[1.0, 0.0, 2.0, 1.0]])
  for u, token in ((0.0, 0), (0.24, 0), (0.26, 2), (0.74, 2), (0.76, 3)):
    assert sampling.inverse_cdf(weights, jnp.asarray([u])).tolist() == [token]


def test_the_targets_number_depends_on_row_and_position_alone():
  keys = jax.random.split(jax.random.key(3), 4)
  position = jnp.asarray([[5, 6], [5, 6], [9, 5], [0, 1]])
  all_rows = sampling.target_uniform(keys, position)
  alone = sampling.target_uniform(keys[2:3], jnp.asarray([[5]]))
  assert alone[0, 0] == all_rows[2, 1]
  assert len(set(np.asarray(all_rows).ravel().tolist())) == 8


def test_streams_of_purposes_rounds_and_nodes_are_apart():
  keys = jax.random.split(jax.random.key(0), 50)
  node = jnp.broadcast_to(jnp.arange(5), (50, 5))
  seen = [sampling.target_uniform(keys, node)]
  for start in (7, 8):
    streams = Streams(keys, jnp.full((50,), start))
    for purpose in (Purpose.DRAFT, Purpose.ACCEPT, Purpose.RECOVER):
      seen.append(sampling.round_uniform(streams, purpose, node))
  numbers = np.stack([np.asarray(x).ravel() for x in seen])
  assert len(np.unique(numbers)) > numbers.size - 4  # 23 bits may collide
  correlation = np.corrcoef(numbers) - np.eye(len(seen))
  assert abs(correlation).max() < 6 / np.sqrt(numbers.shape[1])
  with pytest.raises(ValueError, match="by position"):
    sampling.round_uniform(streams, Purpose.TARGET, node)


@pytest.mark.parametrize(
  "bad, message",
  [
    (dict(temperature=-0.1), "temperature"),
    (dict(temperature=float("nan")), "temperature"),
    (dict(top_k=-1), "top_k"),
    (dict(top_p=0.0), "top_p"),
    (dict(top_p=1.1), "top_p"),
    (dict(min_p=-0.1), "min_p"),
  ],
)
def test_settings_out_of_range_are_refused(bad, message):
  with pytest.raises(ValueError, match=message):
    sampling.make_sampling(1, **bad)


def test_filters_are_traced_only_where_some_row_uses_them():
  assert sampling.make_sampling(2).uses == frozenset()
  assert sampling.make_sampling(2, top_p=0.5).uses == frozenset()
  mixed = sampling.make_sampling(2, temperature=[0.0, 1.0], top_p=[1.0, 0.5])
  assert mixed.uses == {"temperature", "top_p"}
