"""Streamed text: whole characters, and the spans of tokens in it."""

import random

import pytest

from specjax.text import StreamDecoder

TEXT = "naïve 日本語 👩‍👩‍👧‍👦 e\u0301 🇯🇵 x<|im_end|>y\n"


def bursts(ids, seed):
  rng, start = random.Random(seed), 0
  while start < len(ids):
    size = rng.randint(0, 4)
    yield ids[start : start + size]
    start += size


@pytest.mark.parametrize("name", ["smollm2", "sentencepiece"])
@pytest.mark.parametrize("seed", range(5))
def test_any_bursts_give_the_whole_text(request, name, seed):
  tokenizer = request.getfixturevalue(name)
  ids = tokenizer.encode(TEXT)
  stream, shown = StreamDecoder(tokenizer), ""
  for burst in bursts(ids, seed):
    result = stream.feed(burst)
    assert "\ufffd" not in result.text
    assert len(result.spans) == len(burst)
    ends = [0, *(end for _, end in result.spans)]
    assert [start for start, _ in result.spans] == ends[:-1]
    assert ends[-1] == len(result.text)
    shown += result.text
  assert shown + stream.finish() == tokenizer.decode(ids)


def test_special_tokens_are_shown_when_asked(smollm2):
  ids = smollm2.encode(TEXT)
  stream = StreamDecoder(smollm2, skip_special=False)
  assert stream.feed(ids).text + stream.finish() == TEXT


def test_half_a_character_waits(smollm2):
  ids = smollm2.encode("日")
  assert len(ids) > 1
  stream = StreamDecoder(smollm2)
  for index in ids[:-1]:
    assert stream.feed([index]).text == ""
  burst = stream.feed([*ids[-1:], *smollm2.encode("ab c")])
  assert burst.text == "日ab c"
  assert burst.spans == ((0, 1), (1, 3), (3, 5))
  assert stream.finish() == ""


def test_what_never_becomes_whole_is_replaced(smollm2):
  ids = smollm2.encode("a日")[:-1]
  stream = StreamDecoder(smollm2)
  assert stream.feed(ids).text == "a"
  assert stream.finish() == "\ufffd"
  assert smollm2.decode(ids) == "a\ufffd"
  stream = StreamDecoder(smollm2)
  assert stream.feed([*ids, *smollm2.encode("b")]).text == "a\ufffdb"


def test_only_the_first_space_is_dropped(sentencepiece):
  ids = sentencepiece.encode("the  the", add_special=False)
  stream = StreamDecoder(sentencepiece)
  text = "".join(stream.feed([index]).text for index in ids)
  assert text == "the  the"
