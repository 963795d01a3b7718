"""Which questions of a file are asked."""

import pytest

from specjax.evaluation.questions import Question
from specjax.evaluation.runs.choice import choose

FILE = [
  Question((name,), {"question_id": name, "category": category})
  for name, category in zip("a1 b1 a2 b2 a3".split(), "ababa", strict=True)
]


def ids(questions):
  return [question.labels["question_id"] for question in questions]


@pytest.mark.parametrize(
  "options, expected",
  [
    ({}, "a1 b1 a2 b2 a3"),
    ({"categories": ("a",)}, "a1 a2 a3"),
    ({"categories": ("b, a",)}, "a1 b1 a2 b2 a3"),
    ({"per_category": 1}, "a1 b1"),
    ({"per_category": 2, "categories": ("a",)}, "a1 a2"),
    ({"first": 1, "last": 4}, "b1 a2 b2"),
    ({"first": 2, "per_category": 1}, "a2 b2"),
  ],
)
def test_questions_are_chosen_in_their_order(options, expected):
  assert ids(choose(FILE, **options)) == expected.split()


def test_a_question_without_labels_gets_its_place():
  chosen = choose([Question(("x",)), Question(("y",))], first=1)
  assert chosen[0].labels == {"question_id": 1, "category": ""}


@pytest.mark.parametrize(
  "questions, options, fault",
  [
    (FILE, {"categories": ("z",)}, "category 'z'; there are 'a', 'b'"),
    (FILE, {"first": 5}, "no question is left"),
    ([*FILE, FILE[0]], {}, "question_id a1 comes twice"),
    ([Question(("x",)), Question(("y",), {"question_id": 0})], {}, "twice"),
  ],
)
def test_what_cannot_be_asked_is_one_line(questions, options, fault):
  with pytest.raises(ValueError, match=fault):
    choose(questions, **options)
