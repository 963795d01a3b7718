"""Which questions of a file are asked."""

import dataclasses
from collections.abc import Sequence

from specjax.evaluation.questions import Question


def choose(
  questions: Sequence[Question],
  *,
  categories: Sequence[str] = (),
  first: int = 0,
  last: int | None = None,
  per_category: int | None = None,
) -> tuple[Question, ...]:
  """The questions to ask, each with a question_id and a category.

  A question without an id gets its place in the file, from 0.

  Args:
    questions: of a file.
    categories: those wanted, a string of several with commas too; empty is
      all.
    first, last: places in the file, `last` itself left out.
    per_category: at most so many of each, the first ones.

  Raises:
    ValueError: nothing is left, an unknown category, an id that comes twice.
  """
  labelled = [_labelled(q, place) for place, q in enumerate(questions)]
  seen: set[str] = set()
  for question in labelled:
    name = str(question.labels["question_id"])
    if name in seen:
      raise ValueError(f"question_id {name} comes twice in the prompt file")
    seen.add(name)
  known = list(dict.fromkeys(q.labels["category"] for q in labelled))
  categories = [
    part.strip()
    for name in categories
    for part in ([name] if name in known else name.split(","))
  ]
  if unknown := [name for name in categories if name not in known]:
    raise ValueError(
      f"no question is of category {unknown[0]!r}; there are"
      f" {', '.join(map(repr, known))}"
    )
  chosen, counts = [], dict.fromkeys(known, 0)
  for question in labelled[first:last]:
    category = question.labels["category"]
    if categories and category not in categories:
      continue
    if per_category is None or counts[category] < per_category:
      counts[category] += 1
      chosen.append(question)
  if not chosen:
    raise ValueError("no question is left of those in the prompt file")
  return tuple(chosen)


def _labelled(question: Question, place: int) -> Question:
  labels = {"question_id": place, "category": "", **question.labels}
  return dataclasses.replace(question, labels=labels)
