"""Files of users: read alike everywhere, and a wrong byte named by its line."""

import json

import pytest

from specjax.evaluation import questions, records, text_files
from specjax.training.data import (
  corpus_windows,
  read_conversations,
  read_prompts,
  read_traces,
)
from tests.byte_tokenizer import byte_tokenizer

GOOD = '{"prompt": "fine, Jos\u00e9"}'
BAD = GOOD.encode("latin-1")
DIALOGUE = json.dumps({"messages": [{"role": "user", "content": "a"}]})


def test_marks_and_line_ends_are_those_of_no_system(tmp_path):
  file = tmp_path / "text"
  file.write_bytes(b"\xef\xbb\xbfone\r\ntwo\rthr\xc3\xa9e\n")
  assert text_files.read(file) == "one\ntwo\nthr\u00e9e\n"


@pytest.mark.parametrize(
  "data, fault",
  [
    (b"\xff\xfea\x00", "line 1: byte 0xff is no UTF-8"),
    (b"a\nb\n\xe9\nc", "line 3: byte 0xe9"),
    (b"\xef\xbb\xbfa\r\nb\rc\xe9", "line 3: byte 0xe9"),
    (b"a\n\xc3", "line 2: byte 0xc3"),  # half a character
    (b"a\n" * 100_000 + b"\xe9", "line 100001: byte 0xe9"),
  ],
  ids=["utf-16", "latin-1", "line ends", "half", "late"],
)
def test_a_byte_that_is_no_utf_8_is_named_by_its_line(tmp_path, data, fault):
  file = tmp_path / "text"
  file.write_bytes(data)
  with pytest.raises(ValueError) as caught:
    text_files.read(file)
  assert str(caught.value).startswith(f"{file}, {fault}")


def test_what_cannot_be_read_is_said(tmp_path):
  for path, reason in (("none", "No such file"), (".", "Is a directory")):
    with pytest.raises(ValueError, match=f"cannot read .*: {reason}"):
      text_files.read(tmp_path / path)


READERS = {
  "questions": lambda path: questions.read([], str(path)),
  "prompts": lambda path: read_prompts(str(path), byte_tokenizer()),
  "conversations": read_conversations,
  "traces": lambda path: read_traces(path, 9, 1),
  "corpus": lambda path: corpus_windows(byte_tokenizer(), path, 8),
  "records": records.read,
}


@pytest.mark.parametrize("name", READERS)
def test_every_reader_names_file_and_line(tmp_path, name):
  file = tmp_path / "given.jsonl"
  file.write_bytes(GOOD.encode() + b"\n" + BAD + b"\n")
  with pytest.raises(ValueError, match=r"given.jsonl, line 2: byte 0xe9"):
    READERS[name](file)


@pytest.mark.parametrize("before", [1, 1000])
def test_dialogues_name_file_and_line(tmp_path, before):
  file = tmp_path / "given.jsonl"
  file.write_bytes(f"{DIALOGUE}\n".encode() * before + BAD + b"\n")
  with pytest.raises(ValueError, match=f"given.jsonl, line {before + 1}: byte"):
    read_prompts(str(file), byte_tokenizer())
