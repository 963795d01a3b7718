"""Text of Python's own documentation, and of files, in pieces."""

import numpy as np
import pytest

from specjax.evaluation.reproduction import corpus


def write(folder, text):
  path = folder / "text.txt"
  path.write_bytes(text)
  return str(path)


def test_a_file_in_bytes_is_cut_in_ten(tmp_path):
  text = bytes(np.random.default_rng(0).integers(97, 123, 60_000, np.uint8))
  got = corpus.load(write(tmp_path, text), 256)
  assert got.vocab_size == 256
  assert (len(got.training), len(got.held_out)) == (54_000, 6_000)
  # One piece a byte, all different: the pieces are the text under new names.
  names = {}
  for piece, byte in zip(
    [*got.training.tolist(), *got.held_out.tolist()], text, strict=True
  ):
    assert names.setdefault(byte, piece) == piece
  assert len(set(names.values())) == 26


def test_merges_are_learned_from_the_text(tmp_path):
  text = b"the lighthouse of the harbour\n" * 2_000
  path = write(tmp_path, text + b"\xff")
  got, alone = corpus.load(path, 300), corpus.load(path, 256)
  assert 256 < got.vocab_size <= 300
  assert len(got.training) < len(alone.training) / 3
  assert len(alone.training) == len(text) * 9 // 10
  np.testing.assert_array_equal(got.training, corpus.load(path, 300).training)


def test_documentation_has_no_paragraph_twice():
  text = corpus._python_text().decode()
  assert len(text) > 500_000
  # From the topics, from a module and from a module of a package.
  for words in ("truth value testing", "SequenceMatcher", "Message"):
    assert words in text
  paragraphs = text.split("\n\n")
  assert len(paragraphs) > 5_000
  assert len(set(paragraphs)) == len(paragraphs)


def test_errors(tmp_path, monkeypatch):
  with pytest.raises(ValueError, match="cannot read the text .*No such file"):
    corpus.load(str(tmp_path / "none.txt"), 256)
  with pytest.raises(ValueError, match="has 9 bytes; training takes 50000"):
    corpus.load(write(tmp_path, b"too short"), 256)
  monkeypatch.setattr(corpus, "_TOPICS", "pydoc_data.nothing")
  with pytest.raises(ValueError, match="lacks its documentation"):
    corpus.load(None, 256)
