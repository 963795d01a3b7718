"""What every formula promises: jit, vmap, types, broadcasting, slopes."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specjax.theory import (
  acceptance,
  goodput,
  long_context,
  lookahead,
  parallel,
  positions,
  siblings,
  speedup,
  trees,
)

ALPHA = np.asarray([0.0, 0.3, 0.85, 0.999, 1.0])
INNER = np.asarray([0.1, 0.3, 0.5, 0.7, 0.9])
GAMMA = np.asarray([0.0, 1.0, 4.0, 9.0, 3.0])
COST = np.asarray([0.0, 0.02, 0.1, 0.3, 1.0])
RATES = np.asarray([[1.0, 0.0, 0.5], [0.0, 1.0, 1.0], [0.9, 0.8, 0.7]])
P = np.asarray([[0.6, 0.3, 0.1], [1.0, 0.0, 0.0], [0.2, 0.2, 0.6]])
Q = np.asarray([[0.3, 0.6, 0.1], [0.0, 0.5, 0.5], [0.2, 0.2, 0.6]])
LENIENCE = np.asarray([1.0, 0.5, 0.1])

# Formulas of numbers: every argument has the same shape. Edges of their range
# included, but for values that are infinite there.
NUMBERS = [
  (speedup.tokens_per_pass, (ALPHA, GAMMA)),
  (speedup.most_tokens_per_pass, (INNER,)),
  (speedup.speedup, (ALPHA, GAMMA, COST)),
  (speedup.speedup_lower_bound, (ALPHA, COST)),
  (speedup.operations_factor, (ALPHA, GAMMA, COST)),
  (speedup.oracle_speedup, (INNER, COST)),
  (functools.partial(speedup.oracle_gain, longest=5), (INNER, COST)),
  (speedup.speedup_of_times, (1 + GAMMA, GAMMA, COST, 1 + COST, 1 + COST)),
  (speedup.tokens_of_speedup, (1 + ALPHA, GAMMA, COST)),
  (speedup.blockwise_calls, (GAMMA, 1 + GAMMA)),
  (functools.partial(positions.falling, length=3), (ALPHA, ALPHA)),
  (
    functools.partial(lookahead.expected_tokens, num_speculative_tokens=3),
    (ALPHA, 1 + GAMMA),
  ),
  (lookahead.step_compression, (1 + ALPHA, 1 + GAMMA)),
  (goodput.linear_step_seconds, (GAMMA, GAMMA, COST, COST, COST)),
  (goodput.accepted_by_power_law, (1 + GAMMA, INNER, INNER)),
  (goodput.seconds_per_token, (ALPHA, GAMMA, COST, 1 + COST)),
  (goodput.latency_under_load, (1 + COST, INNER, INNER)),
  (
    long_context.critical_context,
    (GAMMA, 1 + GAMMA, COST, 2 + 10 * GAMMA, 1 + COST),
  ),
  (long_context.sparse_draft_cost, (1 + COST, COST, INNER)),
  (
    parallel.parallel_speedup,
    (ALPHA, 1 + GAMMA, 1 + ALPHA, COST + INNER, COST),
  ),
  (parallel.cache_miss_rate, (1 + GAMMA, INNER)),
  (
    functools.partial(parallel.fan_outs, num_speculative_tokens=3),
    (INNER, INNER, 8 + GAMMA),
  ),
  (parallel.training_tokens, (1 + GAMMA, ALPHA, 1 + GAMMA)),
  (functools.partial(trees.even_tree_tokens, max_depth=3), (ALPHA,)),
]
# Formulas over a last axis; the axes before it are a batch.
ROWS = [
  (positions.unconditional, (RATES,)),
  (positions.conditional, (RATES,)),
  (positions.tokens_by_length, (RATES,)),
  (positions.expected_tokens, (RATES,)),
  (positions.draft_acceptance_rate, (RATES,)),
  (positions.speedup_by_length, (RATES, COST[:3])),
  (positions.operations_by_length, (RATES, COST[:3])),
  (acceptance.acceptance, (P, Q)),
  (acceptance.divergence, (P, Q)),
  (acceptance.residual, (P, Q)),
  (acceptance.exact_match_acceptance, (P, Q)),
  (acceptance.single_test_acceptance, (P, Q)),
  (acceptance.lenient_acceptance, (P, Q, LENIENCE)),
  (acceptance.lenient_law, (P, Q, LENIENCE)),
  (functools.partial(siblings.naive_acceptance, num_candidates=2), (P, Q)),
  (functools.partial(siblings.top_acceptance, num_candidates=2), (P, Q)),
  (functools.partial(siblings.recursive_acceptance, num_candidates=2), (P, Q)),
  (functools.partial(siblings.distinct_acceptance, num_candidates=2), (P, Q)),
  (functools.partial(siblings.best_acceptance, num_candidates=2), (P, Q)),
  (functools.partial(siblings.independent_law, num_candidates=2), (P, Q)),
  (goodput.goodput, (RATES, np.asarray([[0.0, 1, 2]] * 3), 1 + COST[:3])),
  (trees.rank_acceptance, (RATES,)),
]
# A bisection has no slopes.
STEPPED = [
  (speedup.acceptance_of_tokens, (1 + ALPHA, 1 + GAMMA)),
  (functools.partial(siblings.kseq_acceptance, num_candidates=2), (P, Q)),
]


def _name(case):
  function = case[0]
  function = getattr(function, "func", function)
  return f"{function.__module__.rpartition('.')[2]}.{function.__name__}"


CASES = NUMBERS + ROWS + STEPPED


@pytest.mark.parametrize("case", CASES, ids=_name)
def test_jit_and_vmap_give_what_a_plain_call_gives(case):
  function, arguments = case
  arguments = [a.astype(np.float32) for a in arguments]
  plain = function(*arguments)
  assert plain.dtype == jnp.float32
  assert np.isfinite(np.asarray(plain)).all()
  together = jax.jit(lambda *a: (function(*a), jax.vmap(function)(*a)))
  for other in together(*arguments):
    np.testing.assert_allclose(other, plain, rtol=2e-6, atol=2e-7)


@pytest.mark.parametrize("case", NUMBERS + ROWS, ids=_name)
def test_slopes_are_finite_at_the_edges(case):
  function, arguments = case
  arguments = [a.astype(np.float32) for a in arguments]
  every = tuple(range(len(arguments)))
  slopes = jax.jit(jax.grad(lambda *a: function(*a).sum(), every))(*arguments)
  for slope in slopes:
    assert np.isfinite(np.asarray(slope)).all(), slopes


@pytest.mark.parametrize("case", CASES, ids=_name)
def test_the_floating_type_is_kept(case):
  function, arguments = case

  def type_of(*dtypes):
    shapes = [
      jax.ShapeDtypeStruct(a.shape, d)
      for a, d in zip(arguments, dtypes, strict=True)
    ]
    return jax.eval_shape(function, *shapes).dtype

  count = len(arguments)
  assert type_of(*[jnp.bfloat16] * count) == jnp.bfloat16
  assert type_of(*[jnp.int32] * count) == jnp.float32
  if count > 1:
    mixed = [jnp.bfloat16] + [jnp.int32] * (count - 1)
    assert type_of(*mixed) == jnp.bfloat16
    assert type_of(*[jnp.bfloat16] * (count - 1), jnp.float32) == jnp.float32
  with jax.enable_x64(True):
    assert type_of(*[jnp.float64] * count) == jnp.float64


@pytest.mark.parametrize("case", NUMBERS, ids=_name)
def test_numbers_and_arrays_broadcast(case):
  """A plain number beside arrays, and axes of one beside others."""
  function, arguments = case
  first = float(arguments[0][1])
  rest = [jnp.asarray(a, jnp.bfloat16) for a in arguments[1:]]
  mixed = jax.eval_shape(lambda *a: function(first, *a), *rest)
  whole = jax.eval_shape(function, *(jnp.asarray(a) for a in arguments))
  if rest:
    assert (mixed.shape, mixed.dtype) == (whole.shape, jnp.bfloat16)
    grid = jax.eval_shape(
      function,
      jnp.asarray(arguments[0])[:, None],
      *(jnp.asarray(a)[None] for a in arguments[1:]),
    )
    assert grid.shape == (5, *whole.shape)
  else:
    assert mixed.shape == whole.shape[1:]


def test_slopes_lead_where_they_should():
  """More acceptance gives more tokens; a dearer draft less speed."""
  slope = jax.grad(speedup.speedup, (0, 2))
  alpha, cost = slope(0.7, 4.0, 0.05)
  assert alpha > 0 > cost
  # The slope of sum min(p, q) in q is 1 where q < p, as training drafts uses.
  p, q = jnp.asarray(P[0]), jnp.asarray([0.3, 0.59, 0.11])
  slope = jax.grad(acceptance.acceptance, 1)(p, q)
  np.testing.assert_allclose(slope, [1.0, 0.0, 0.0])
