"""Refusals and acceptance by class, by hand, and what a mode may claim."""

import pytest

from specjax.evaluation.records import Mode
from specjax.evaluation.report import claims, tokens

LOOKUP = Mode(
  "ngram k=2", "ngram", "exact_match", True, num_speculative_tokens=2
)
LOSSY = Mode("typical", "model", "typical", False, num_speculative_tokens=2)


def node(slot, parent, token, text, p, fate, q=None):
  return {
    "slot": slot,
    "parent": parent,
    "token": token,
    "text": text,
    "p": p,
    "q": q,
    "fate": fate,
  }


def emitted(token, text, slot=None, p=0.5):
  return {
    "token": token,
    "text": text,
    "by": "target" if slot is None else "draft",
    "slot": slot,
    "p": p,
    "alternatives": [[token, text, p]],
  }


# Two rounds of a chain, then a tree with two children under its root.
TRACE = {
  "mode": "ngram k=2",
  "question_id": "1",
  "category": "chat",
  "turn": 0,
  "repeat": 0,
  "prompt": "Say",
  "text": "The house.",
  "lossless": True,
  "rounds": [
    {
      "width": 3,
      "nodes": [
        node(1, 0, 10, "The", 0.9, "accepted"),
        node(2, 1, 11, " sea", 0.1, "refused"),
        node(3, 2, 12, " x", 0.3, "unreached"),
      ],
      "emitted": [emitted(10, "The", 1), emitted(20, " light")],
    },
    {
      "width": 3,
      "nodes": [
        node(1, 0, 11, " sea", 0.3, "refused"),
        node(2, 1, 13, "s", 0.3, "unreached"),
      ],
      "emitted": [emitted(21, "house")],
    },
    {
      "width": 5,
      "nodes": [
        node(1, 0, 22, "s", 0.2, "refused", 0.5),
        node(2, 0, 11, " sea", 0.6, "accepted", 0.4),
        node(3, 2, 30, ".", 0.7, "cut", 0.4),
      ],
      "emitted": [emitted(11, " sea", 2)],
    },
  ],
}


def test_most_refused_by_hand():
  sea, s = tokens.most_refused([TRACE])
  assert (sea.token, sea.text, sea.refused, sea.judged) == (11, " sea", 2, 3)
  assert sea.mean_p == pytest.approx(0.2) and sea.mean_q == 1.0
  assert (s.token, s.refused, s.judged) == (22, 1, 1)
  assert (s.mean_p, s.mean_q) == (0.2, 0.5)
  assert tokens.most_refused([TRACE, TRACE], top=1)[0].refused == 4
  assert tokens.most_refused([]) == []


def test_acceptance_by_class_by_hand():
  found = {c.name: c for c in tokens.by_class([TRACE])}
  start, going_on = found["word start"], found["word continuation"]
  # "The" begins the answer; " sea" three times and " x".
  assert (start.drafted, start.accepted, start.refused) == (5, 2, 2)
  assert start.acceptance == 0.5
  # "s" behind " sea", and "s" behind "house" of the round before.
  assert (going_on.drafted, going_on.accepted, going_on.refused) == (2, 0, 1)
  cut = found["punctuation"]
  assert (cut.drafted, cut.judged, cut.acceptance) == (1, 0, None)
  assert set(found) == {"word start", "word continuation", "punctuation"}


@pytest.mark.parametrize(
  "equal, ties, law, ids",
  [
    (5, None, "exactly the target's", "in all 5 answers"),
    (3, 2, "exactly the target's", "2 of the 2 differences are near-ties"),
    (3, 1, "NOT CONFIRMED", "1 of the 2 differences are near-ties"),
    (3, None, "NOT CONFIRMED", "in 3 of 5 answers; the rest was not searched"),
  ],
)
def test_a_claim_holds_as_far_as_the_answers_do(equal, ties, law, ids):
  found = {"compared": 5, "equal": equal, "near_ties": ties}
  assert law in claims.describe_law(LOOKUP, found)
  assert ids in claims.describe_identity(found)
  assert claims.describe_law(LOSSY, found).startswith("LOSSY")


def test_what_need_not_be_equal_is_not_held_against_a_rule():
  assert "exactly the target's" in claims.describe_law(LOOKUP, None)
  assert "were not compared" in claims.describe_identity(None)
  peer = Mode("lookup", "lookup", system="transformers")
  assert "does not state its law" in claims.describe_law(peer, None)
