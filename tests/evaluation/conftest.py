"""Answers made up by hand: their rounds say how many tokens there are."""

import pytest

from tests.made_answers import PLAIN, make_answer
from tests.made_answers import lookup as lookup_mode

LOOKUP = lookup_mode(3)
# Drafted, accepted, emitted, width.
ROUNDS = ((3, 3, 4, 4), (3, 1, 2, 4), (0, 0, 1, 1), (3, 0, 1, 4), (2, 2, 2, 4))


def build_answer(mode, question="q", rounds=None, seconds=1.0, **fields):
  if rounds is None and not mode.is_plain:
    rounds = ROUNDS
  return make_answer(mode, question, rounds, decode_s=seconds, **fields)


@pytest.fixture
def build():
  return build_answer


@pytest.fixture
def plain():
  return PLAIN


@pytest.fixture
def lookup():
  return LOOKUP
