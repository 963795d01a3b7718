"""Conversations: masks, files, splits, and the packed form."""

import json

import pytest

from specjax.training.data import (
  Conversation,
  is_held_out,
  pack,
  read_conversations,
  unpack,
)
from specjax.training.data.conversations import on_side, prompt_id


def _text(answers, size=6):
  ids = tuple(range(size))
  return Conversation("7", "synthetic", ids, answers, 0.5, "p")


def test_the_first_answer_token_is_learnt_at_the_position_before_it():
  assert _text(((3, 6),)).mask.tolist() == [0, 0, 1, 1, 1, 0]
  assert _text(((1, 2), (4, 5))).mask.tolist() == [1, 0, 0, 1, 0, 0]
  assert _text(((0, 6),)).mask.tolist() == [1, 1, 1, 1, 1, 0]
  assert _text(()).mask.tolist() == [0] * 6
  assert _text(((1, 2), (4, 5))).new_tokens == 2


@pytest.mark.parametrize(
  "answers", [((3, 7),), ((-1, 2),), ((2, 2),), ((3, 5), (4, 6)), ((4, 2),)]
)
def test_spans_that_are_none_are_refused(answers):
  with pytest.raises(ValueError, match="must be spans"):
    _text(answers)


def test_a_file_reads_back_and_a_broken_last_line_is_left_out(tmp_path):
  kept = [_text(((3, 6),)), _text(())]
  lines = [json.dumps(c.to_json()) + "\n" for c in kept]
  file = tmp_path / "c.jsonl"
  file.write_text("".join([*lines, '{"id": "9", "dropped": "short"}\n']))
  assert read_conversations(file) == kept
  whole = file.read_text()
  file.write_text(whole + lines[0][:-1])  # not ended, so perhaps not whole
  assert read_conversations(file) == kept
  file.write_text(whole + '{"id": 3}\n')
  with pytest.raises(ValueError, match="line 4: no conversation"):
    read_conversations(file)
  with pytest.raises(ValueError, match="cannot read"):
    read_conversations(tmp_path / "none.jsonl")


def test_a_split_is_by_prompt_and_stable():
  ids = [prompt_id(f"query {n}") for n in range(2000)]
  small = {i for i in ids if is_held_out(i, 0.05)}
  large = {i for i in ids if is_held_out(i, 0.2)}
  assert small < large
  assert 60 < len(small) < 145 and 320 < len(large) < 480
  assert prompt_id("What is  it?\n") == prompt_id("what is it?")
  for i in ids[:50]:
    sides = [on_side(i, side, 0.2) for side in ("train", "held_out", "all")]
    assert sides == [i not in large, i in large, True]
  with pytest.raises(ValueError, match="a side is one of"):
    on_side("p", "test", 0.2)
  with pytest.raises(ValueError, match="0 to 1"):
    on_side("p", "train", 1.5)


def test_a_pack_reads_back_equal_and_is_small(tmp_path, texts):
  many = [*texts, _text(()), _text(((1, 2), (4, 6)))]
  file = tmp_path / "pack.npz"
  size = pack(many, file)
  assert unpack(file) == many
  assert size == file.stat().st_size
  first = file.read_bytes()
  pack(many, file)
  assert file.read_bytes() == first
  wide = [Conversation("1", "trace", (70000, 1), ((1, 2),), None, "é\0")]
  pack(wide, file)
  assert unpack(file) == wide
  file.write_bytes(first[:100])
  with pytest.raises(ValueError, match="no packed conversations"):
    unpack(file)
