"""Classes of tokens, by a table of texts."""

import pytest

from specjax.evaluation.token_classes import CLASSES, classify

TABLE = {
  "word start": [" the", " x1", "\nDef", " été", " «Oui", " Привет", " (x"],
  "word continuation": ["ing", "'s", "_name", "ß", "x1", "n't", "ной"],
  "number": ["7", " 12", "3.14", "1,000", "½", "٣", "Ⅷ", "5%", "-1"],
  "punctuation": [".", ",", " —", "...", "?!", ")", " (", "“", "$", "€", "¿"],
  "whitespace, newline": [" ", "\n", "\n\n", "\t", "    ", "\u3000"],
  "code symbol": ["{", "==", " +=", "->", "();{", "#", "`", "**", "≤", "_"],
  "special": ["<|im_end|>", "</s>", "<s>", "[PAD]", "", " <|endoftext|>"],
  "CJK, other": ["灯", "のは", " 한국", "ไทย", "\ufffd", "🌊", "\x00", "A灯"],
}


def test_every_class_is_in_the_table():
  assert tuple(TABLE) == CLASSES


@pytest.mark.parametrize(
  "name, text", [(name, text) for name, ts in TABLE.items() for text in ts]
)
def test_class_of_a_text(name, text):
  assert classify(text) == name


@pytest.mark.parametrize(
  "before, name",
  [
    (None, "word continuation"),
    ("light", "word continuation"),
    ("1", "word continuation"),
    ("", "word start"),
    ("\n", "word start"),
    (" ", "word start"),
    ("(", "word start"),
  ],
)
def test_a_word_without_a_space_starts_where_no_word_goes_on(before, name):
  assert classify("house", before) == name
  assert classify(" house", before) == "word start"
  assert classify("7", before) == "number"
