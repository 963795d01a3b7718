"""Stops inside a burst, at its edge and across two."""

import jax.numpy as jnp
import numpy as np
import pytest

from specjax.constraints import Stops, StopTables
from specjax.types import EOS, RUNNING, STOP

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
