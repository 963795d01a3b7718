"""Stop strings: the automaton against searching, and cutting text."""

import random
import time

import numpy as np
import pytest

from specjax.text import TextError, cut_at_stop, safe_length, stop_tables

CASES = [
  [b"ab"],
  [b"aab", b"ab", b"b"],
  [b"abab", b"bb", b"abb"],
  [b"a"],
  [b"aaa", b"ab"],
  [b"abcabd", b"cab"],
  [b"bcb", b"abcba"],
  [],
]


def run(table, ids):
  state = 0
  for index in ids:
    state = table[state, index]
  return state


@pytest.mark.parametrize("stops", CASES)
def test_hits_are_those_of_searching(stops):
  rng = random.Random(0)
  pieces = [b"a", b"b", b"c", b"", b"ab", b"ba", b"abc", b"bcab", b"aabab"]
  table = stop_tables(pieces, stops)
  assert table.dtype == np.int32 and table.shape[1] == len(pieces)
  hit = len(table) - 1
  assert (table[hit] == hit).all()
  for _ in range(500):
    ids = rng.choices(range(len(pieces)), k=rng.randint(0, 6))
    text = b"".join(pieces[index] for index in ids)
    assert (run(table, ids) == hit) == any(stop in text for stop in stops)


def test_a_hit_inside_a_token_counts():
  table = stop_tables([b"xx stop yy", b"xx st", b"op"], ["stop"])
  hit = len(table) - 1
  assert table[0].tolist()[0] == hit
  assert run(table, [1, 2]) == hit
  assert run(table, [2, 1]) != hit


def test_no_states_below_a_shorter_stop():
  # "ab" ends inside "abcdef", so only "", "a" and HIT are left.
  assert stop_tables([b"a"], ["abcdef", "ab"]).shape == (3, 1)


def test_padding_leaves_the_state_alone():
  table = stop_tables([b"a", b"b"], ["aab"], width=5)
  np.testing.assert_array_equal(
    table[:, 2:], np.arange(len(table))[:, None] * [1, 1, 1]
  )
  with pytest.raises(TextError, match="less than 2 tokens"):
    stop_tables([b"a", b"b"], ["aab"], width=1)


def test_text_stops_over_real_tokens(smollm2):
  stops = ["\n\nHuman:", "日本", "<|im_end|>", "the end"]
  start = time.perf_counter()
  table = stop_tables(smollm2, stops)
  assert time.perf_counter() - start < 2
  hit = len(table) - 1
  for text in ("so\n\nHuman: hi", "in 日本語", "x<|im_end|>", "at the ending"):
    assert run(table, smollm2.encode(text)) == hit
  for text in ("so\n\nHumans", "日 本", "im_end", "the  end"):
    assert run(table, smollm2.encode(text)) != hit


@pytest.mark.parametrize("stops", [[""], ["a", ""], "abc"])
def test_refused(stops):
  for function in (lambda: stop_tables([b"a"], stops),
                   lambda: cut_at_stop(b"a", stops)):  # fmt: skip
    with pytest.raises(TextError, match="must not be empty|must be a list"):
      function()


@pytest.mark.parametrize(
  "text,stops,expected",
  [
    (b"one STOP two", ["STOP"], b"one "),
    (b"one two", ["STOP"], None),
    (b"one", [], None),
    (b"a b c", ["c", "b"], b"a "),
    # The first to end counts, and of those the longest.
    (b"xabcd", ["abcd", "bc"], b"xa"),
    (b"xabcd", ["bc", "abc"], b"x"),
    ("né日本".encode(), ["日"], "né".encode()),
  ],
)
def test_cutting(text, stops, expected):
  assert cut_at_stop(text, stops) == expected


def test_what_may_be_shown():
  assert safe_length(b"hello", ["lot"]) == 3
  assert safe_length(b"hello", ["lot", "ellow"]) == 1
  assert safe_length(b"hello", ["x"]) == 5
  assert safe_length(b"hello", []) == 5
  # However a text is split, what was shown is never taken back.
  stops = [b"abab", b"bb"]
  for text in (b"aabab", b"cabb", b"ababb"):
    whole = cut_at_stop(text, stops)
    for size in range(len(text)):
      if cut_at_stop(text[:size], stops) is None:
        assert safe_length(text[:size], stops) <= len(whole)
