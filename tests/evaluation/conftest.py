"""Answers made up by hand: their rounds say how many tokens there are."""

import pytest

from specjax.evaluation.records import Answer, Mode

PLAIN = Mode("none", rule="exact_match", lossless=True)
LOOKUP = Mode("ngram k=3", "ngram", "exact_match", True, 3)
# Drafted, accepted, emitted, width.
ROUNDS = ((3, 3, 4, 4), (3, 1, 2, 4), (0, 0, 1, 1), (3, 0, 1, 4), (2, 2, 2, 4))


def build_answer(mode, question="q", rounds=None, seconds=1.0, **fields):
  """An answer with as many tokens as its rounds emitted, ids 0, 1, 2 ..."""
  if rounds is None:
    rounds = ((0, 0, 1, 1),) * 10 if mode.is_plain else ROUNDS
  new_tokens = sum(emitted for *_, emitted, _ in rounds)
  given = {
    "category": "story",
    "turn": 0,
    "repeat": 0,
    "prompt": f"prompt of {question}",
    "text": "text",
    "token_ids": tuple(range(new_tokens)),
    "finish_reason": "length",
    "prompt_tokens": 7,
    "begun": False,
    "passes": len(rounds),
    "compile_s": 2.0,
    "prefill_s": 0.1,
    "predicted_s": None,
    "repeated_8grams": 0.0,
    "seed": 0,
    "environment": {"model": "tiny", "route": "main"},
  }
  return Answer(
    mode=mode,
    question_id=question,
    rounds=tuple(rounds),
    decode_s=seconds,
    **{**given, **fields},
  )


@pytest.fixture
def build():
  return build_answer


@pytest.fixture
def plain():
  return PLAIN


@pytest.fixture
def lookup():
  return LOOKUP
