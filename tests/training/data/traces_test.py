"""Traces of other systems: two forms are read, others refused by line."""

import json
import math

import numpy as np
import pytest

from specjax.training.data import Batches, Store, add_traces, read_traces
from tests.byte_tokenizer import byte_tokenizer

LOGS = [math.log(0.5), math.log(0.25)]
PLAIN = {
  "token_ids": [3, 4, 5, 6],
  "top_ids": [None, [4, 7], [7, 5], [6, 3]],
  "top_logprobs": [None, LOGS, LOGS, LOGS],
}


def _write(folder, *entries):
  path = folder / "trace.jsonl"
  path.write_text("".join(json.dumps(e) + "\n" for e in entries))
  return path


def test_a_law_stands_at_the_token_before_its_own(tmp_path):
  path = _write(tmp_path, PLAIN, PLAIN | {"answers": [[2, 4]]})
  whole, part = read_traces(path, vocab_size=8, top_k=3)
  assert whole.conversation.source == "trace"
  assert whole.conversation.mask.tolist() == [1, 1, 1, 0]
  assert part.conversation.mask.tolist() == [0, 1, 1, 0]
  np.testing.assert_array_equal(
    whole.top_ids, [[4, 7, 0], [7, 5, 0], [6, 3, 0], [0, 0, 0]]
  )
  np.testing.assert_allclose(
    whole.top_log_probs[:3], [[*LOGS, -np.inf]] * 3, rtol=1e-6
  )
  np.testing.assert_allclose(
    np.exp(whole.log_tail), [0.25, 0.25, 0.25, 1], rtol=1e-6
  )
  (short,) = read_traces(_write(tmp_path, PLAIN), vocab_size=8, top_k=1)
  np.testing.assert_allclose(np.exp(short.log_tail[:3]), 0.5, rtol=1e-6)


def test_a_position_without_a_law_is_not_learnt(tmp_path):
  laws = {
    "top_ids": [None, [4], None, [6]],
    "top_logprobs": [None, [0], None, [0]],
  }
  (found,) = read_traces(_write(tmp_path, PLAIN | laws), vocab_size=8, top_k=1)
  assert found.conversation.mask.tolist() == [1, 0, 1, 0]
  assert found.conversation.answers == ((1, 2), (3, 4))


def _item(text, logprob, *others, **fields):
  top = [{"token": t, "logprob": x} for t, x in others]
  return {"token": text, "logprob": logprob, "top_logprobs": top, **fields}


def test_openai_logprobs_are_read_by_text_bytes_and_id(tmp_path):
  tokenizer = byte_tokenizer("{{ messages[0].content }}:")
  content = [
    _item("b", LOGS[1], ("a", LOGS[0]), ("b", LOGS[1])),
    _item("\ufffd", LOGS[0], bytes=[0xC3]),  # half a character
    _item("token_id:256", LOGS[0], ("a", LOGS[1])),
  ]
  entry = {
    "messages": [{"role": "user", "content": "hi"}],
    "choices": [{"logprobs": {"content": content}}],
  }
  path = _write(tmp_path, entry)
  (found,) = read_traces(path, vocab_size=257, top_k=2, tokenizer=tokenizer)
  text, code = found.conversation, tokenizer.encode
  (half,) = [i for i, b in enumerate(tokenizer.token_bytes()) if b == b"\xc3"]
  assert list(text.token_ids) == [*code("hi:"), *code("b"), half, 256]
  assert text.answers == ((3, 6),)
  assert found.top_ids[2].tolist() == [*code("a"), *code("b")]
  assert found.top_ids[4].tolist() == [256, *code("a")]
  np.testing.assert_allclose(np.exp(found.log_tail[2:5]), [0.25, 0.5, 0.25])
  ids = entry | {"prompt_token_ids": [1, 2]}
  (found,) = read_traces(_write(tmp_path, ids), 257, 2, tokenizer)
  assert found.conversation.token_ids[:2] == (1, 2)


@pytest.mark.parametrize(
  "change, reason",
  [
    ({"top_ids": [[1]]}, "4 token_ids, 1 top_ids"),
    ({"token_ids": [3, 4, 5, 8]}, "8 is no token of a vocabulary of 8"),
    ({"token_ids": [3, 4, 5, "x"]}, "'x' is no token"),
    ({"top_logprobs": [None, LOGS, LOGS, [0.0, -0.1]]}, "sums to"),
    ({"top_logprobs": [None, LOGS, LOGS, [math.nan, 0]]}, "sums to nan"),
    ({"answers": [[2, 9]]}, "must be spans"),
  ],
)
def test_a_line_that_is_no_trace_is_refused_by_number(tmp_path, change, reason):
  path = _write(tmp_path, PLAIN, PLAIN | change)
  with pytest.raises(ValueError, match=f"line 2: no trace.*{reason}"):
    read_traces(path, vocab_size=8, top_k=2)


@pytest.mark.parametrize(
  "entry, reason",
  [
    ({"text": "x"}, "neither token_ids"),
    ({"logprobs": {"content": []}}, "without a tokenizer"),
    (
      {"logprobs": {"content": [_item("a", -1.0)]}, "prompt_token_ids": [1]},
      "every token needs its token_id",
    ),
    ([1], "no trace"),
  ],
)
def test_other_forms_are_refused(tmp_path, entry, reason):
  with pytest.raises(ValueError, match=reason):
    read_traces(_write(tmp_path, entry), vocab_size=8, top_k=2)


def test_traces_are_stored_and_served_like_labels(tmp_path):
  traces = read_traces(_write(tmp_path, PLAIN), vocab_size=8, top_k=2)
  path = tmp_path / "store"
  add_traces(path, traces, {"name": "served", "vocab_size": 8})
  batches = Batches([Store(path)], batch=1, length=4, side="all")
  batch = batches(0)
  assert batch.tokens.tolist() == [[3, 4, 5, 6]]
  assert batch.mask.tolist() == [[True, True, True, False]]
  assert batch.teacher.ids[0, 0].tolist() == [4, 7]
