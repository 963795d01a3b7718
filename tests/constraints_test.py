"""Stops inside a burst, at its edge and across two; laws bent along paths."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specjax import control, decoding, sampling, trees
from specjax.acceptance import ExactMatch
from specjax.constraints import (
  MinNewTokens,
  Penalties,
  Stops,
  StopTables,
  Together,
)
from specjax.drafters import DraftModel, NGram, NoDraft
from specjax.passes import Engine
from specjax.testing.tables import TableModel, random_table
from specjax.types import EOS, RUNNING, STOP, Nodes, Params

# Tokens are letters a..d; the stop string is "abc": states 0, a, ab, hit.
TABLE = jnp.asarray(
  [[1, 0, 0, 0], [1, 2, 0, 0], [1, 0, 3, 0], [3, 3, 3, 3]], jnp.int32
)


def advance(text, count=None, state=0, eos=(3,), table=TABLE):
  tokens = jnp.asarray([["abcd".index(c) for c in text]])
  stops = Stops(eos)
  tables = StopTables(table)
  count = jnp.asarray([len(text) if count is None else count])
  start = jnp.asarray([state])
  after, kept, finish = stops.advance(tables, start, tokens, count)
  return int(after[0]), int(kept[0]), int(finish[0])


@pytest.mark.parametrize(
  "text, kept, finish",
  [
    ("aab", 3, RUNNING),
    ("abca", 3, STOP),
    ("dabc", 1, EOS),
    ("abdc", 3, EOS),
    ("bcab", 4, RUNNING),
  ],
)
def test_a_burst_is_cut_at_the_first_stop(text, kept, finish):
  assert advance(text)[1:] == (kept, finish)


def test_tokens_past_the_count_are_not_seen():
  assert advance("aabc", count=3) == (2, 3, RUNNING)
  assert advance("dddd", count=0) == (0, 0, RUNNING)


def test_a_stop_string_is_found_across_bursts():
  text = "babab" + "caa"
  for cut in range(1, len(text)):
    state, kept, finish = advance(text[:cut])
    if finish == RUNNING:
      state, kept, finish = advance(text[cut:], state=state)
      kept += cut
    assert (kept, finish) == (6, STOP)


def test_without_a_table_only_end_of_text_stops():
  assert advance("abcd", table=None)[1:] == (4, EOS)
  assert advance("abcd", table=None, eos=())[1:] == (4, RUNNING)


def test_rows_are_apart():
  tokens = jnp.asarray([[0, 1, 2], [0, 3, 1], [1, 1, 1]])
  state, kept, finish = Stops((3,)).advance(
    StopTables(TABLE), jnp.zeros(3, jnp.int32), tokens, jnp.asarray([3, 3, 2])
  )
  np.testing.assert_array_equal(kept, [3, 2, 2])
  np.testing.assert_array_equal(finish, [STOP, EOS, RUNNING])
  np.testing.assert_array_equal(state[2], 0)


#      0 (token 4)        slots 1 2 hang under 0, slots 3 4 under 1
#     / \
#    1   2
#   / \
#  3   4
TREE = Nodes(
  tokens=jnp.asarray([[1, 2, 1, 3]]),
  parents=jnp.asarray([[0, 0, 1, 1]]),
  count=jnp.asarray([4]),
  rider_count=jnp.asarray([0]),
  num_judged=4,
  max_depth=2,
)


def bent(constraint, state):
  slots = trees.make_slots(jnp.asarray([4]), jnp.asarray([9]), TREE)
  return constraint.apply(None, state, slots, jnp.zeros((1, 5, 5)))[0]


def test_penalties_count_the_state_and_the_path():
  penalties = Penalties(5, presence=10.0, frequency=1.0)
  state = jnp.asarray([[0, 0, 2, 0, 1]])
  np.testing.assert_array_equal(
    bent(penalties, state),
    [
      [0, 0, -12, 0, -11],
      [0, -11, -12, 0, -11],
      [0, 0, -13, 0, -11],
      [0, -12, -12, 0, -11],
      [0, -11, -12, -11, -11],
    ],
  )
  burst = jnp.asarray([[3, 3, 1]])
  after, count, _ = penalties.advance(None, state, burst, jnp.asarray([2]))
  assert after.tolist() == [[0, 0, 2, 2, 1]]
  assert count.tolist() == [2]


def test_no_end_of_text_before_the_least_number_of_tokens():
  barred = bent(MinNewTokens(4, (0, 2)), jnp.asarray([2])) == -jnp.inf
  ends = np.asarray([1, 0, 1, 0, 0], bool)
  for slot, depth in enumerate([0, 1, 1, 2, 2]):
    expected = ends if 2 + depth < 4 else np.zeros(5, bool)
    np.testing.assert_array_equal(barred[slot], expected)


def decode(drafter, constraint, tables, draft=None, batch=24):
  model = TableModel(5, 2)
  engine = Engine(model, drafter, ExactMatch(), control.Constant(), constraint)
  params = Params(random_table(3, 5, 2), draft, tables)
  tokens = np.zeros((batch, 48), np.int32)
  tokens[:, :2] = 1
  rows = decoding.init_rows(
    engine,
    params,
    jnp.asarray(tokens),
    jnp.full((batch,), 2, jnp.int32),
    key=jax.random.split(jax.random.key(0), batch),
    sampling=sampling.make_sampling(batch, temperature=1.3),
    limit=jnp.full((batch,), 30, jnp.int32),
    max_draft=jnp.full((batch,), drafter.max_depth, jnp.int32),
    max_rounds=32,
  )
  rows = decoding.prefill(engine, params, rows, chunk=4)
  return decoding.decode(engine, params, rows, jnp.int32(99), jnp.int32(1))


def test_bent_laws_give_the_same_tokens_whatever_is_drafted():
  both = Together(
    (
      Penalties(5, presence=0.5, frequency=0.7),
      MinNewTokens(9, (3,)),
      Stops((3,)),
    )
  )
  tables = (None, None, StopTables(TABLE_OF_FIVE))
  plain = decode(NoDraft(), both, tables)
  length = np.asarray(plain.length) - 2
  assert set(np.asarray(plain.finish).tolist()) == {EOS, STOP}
  ended = np.asarray(plain.finish) == EOS
  assert (length[ended] > 9).all()
  for drafter in (NGram(4, 1, 3), DraftModel(TableModel(5, 2), 3)):
    rows = decode(drafter, both, tables, random_table(3, 5, 2))
    np.testing.assert_array_equal(rows.tokens, plain.tokens)
    np.testing.assert_array_equal(rows.finish, plain.finish)
    assert int(rows.history[..., 1].sum()) > 50  # drafts were kept
  unbent = decode(NoDraft(), Stops((3,)), None)
  assert (np.asarray(unbent.tokens) != np.asarray(plain.tokens)).any()


# "abab" ends a text.
TABLE_OF_FIVE = jnp.asarray(
  [
    [1, 0, 0, 0, 0],
    [1, 2, 0, 0, 0],
    [3, 0, 0, 0, 0],
    [1, 4, 0, 0, 0],
    [4, 4, 4, 4, 4],
  ],
  jnp.int32,
)
