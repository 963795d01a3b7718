"""Kinds of tokens, told from their texts alone."""

import re
import unicodedata

WORD_START = "word start"
WORD_CONTINUATION = "word continuation"
NUMBER = "number"
PUNCTUATION = "punctuation"
WHITESPACE = "whitespace, newline"
CODE_SYMBOL = "code symbol"
SPECIAL = "special"
OTHER = "CJK, other"

CLASSES = (
  WORD_START,
  WORD_CONTINUATION,
  NUMBER,
  PUNCTUATION,
  WHITESPACE,
  CODE_SYMBOL,
  SPECIAL,
  OTHER,
)

_SPECIAL = re.compile(
  r"<\|.*\|>|\[(?:CLS|SEP|PAD|UNK|MASK|INST|/INST)\]"
  r"|</?(?:s|pad|unk|bos|eos|mask|start_of_turn|end_of_turn)>",
  re.DOTALL,
)
# What programs and markup are written with and prose seldom is.
_CODE = frozenset("{}[]<>=+*/\\|^~#@&_`")
# Scripts whose letters begin no word that a space would show, by the first
# word of their names in the Unicode data.
_UNSPACED = frozenset(
  "CJK HIRAGANA KATAKANA KATAKANA-HIRAGANA HANGUL BOPOMOFO IDEOGRAPHIC THAI LAO"
  " KHMER MYANMAR TIBETAN YI".split()
)


def classify(text: str, before: str | None = None) -> str:
  """The class of a token, one of `CLASSES`.

  The first that holds: no text at all or a marker such as <|im_end|> is
  special; spaces alone are whitespace; any letter of a script without spaces
  makes it CJK; any letter makes it a word; any digit a number; any sign of
  programs, markup or mathematics a code symbol; other punctuation and
  currency signs punctuation. What is left (half characters, pictures, control
  codes) is other.

  Args:
    text: of the token, its spaces included.
    before: the text of the token before it. A word without a space in front of
      it starts where `before` does not end in a letter or a digit; None is
      unknown, and the word then goes on.
  """
  if not text or _SPECIAL.fullmatch(text.strip()):
    return SPECIAL
  if text.isspace():
    return WHITESPACE
  kinds = {unicodedata.category(c)[0] for c in text}
  if "L" in kinds:
    if any(_is_unspaced(c) for c in text):
      return OTHER
    return WORD_START if _starts(text, before) else WORD_CONTINUATION
  if "N" in kinds:
    return NUMBER
  if any(c in _CODE or unicodedata.category(c) == "Sm" for c in text):
    return CODE_SYMBOL
  if any(_is_punctuation(c) for c in text):
    return PUNCTUATION
  return OTHER


def _starts(text: str, before: str | None) -> bool:
  if text[0].isspace():
    return True
  return before is not None and not before[-1:].isalnum()


def _is_unspaced(char: str) -> bool:
  name = unicodedata.name(char, "")
  return name.partition(" ")[0] in _UNSPACED


def _is_punctuation(char: str) -> bool:
  category = unicodedata.category(char)
  return category[0] == "P" or category == "Sc"
