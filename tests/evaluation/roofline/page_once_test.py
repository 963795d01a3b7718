"""The page's arithmetic of drafters that run something once a draft."""

import pytest

from specjax.evaluation import roofline_page
from specjax.evaluation.roofline_page import check
from tests.evaluation.roofline.page_test import v8  # noqa: F401  (a fixture)


def once_cases(seed):
  found = [c for c in check.random_cases(60, seed) if c.drafter.once]
  assert {c.draft for c in found} == {"eagle3", "medusa", "blockwise"}
  return found


@pytest.mark.parametrize(
  "text, other",
  [
    ("once.shared + gamma * once.each", "once.shared + once.each"),
    ("gamma * (once.each + once.shared)", "gamma * once.each"),
    ("setup, batch, gamma, 0) : NOTHING", "setup, batch, 1, 9) : NOTHING"),
    ("gamma * one.seconds + once.seconds", "gamma * one.seconds"),
    ("if (!drafter.model) return one;", ""),
  ],
)
def test_a_wrong_arithmetic_is_found(v8, text, other):  # noqa: F811
  def change(script):
    assert text in script
    return script.replace(text, other)

  found = once_cases(3)
  assert check.compare(found, v8)[0] < check.TOLERANCE
  worst, _ = check.compare(found, lambda script: v8(script, change))
  assert worst > check.TOLERANCE


def test_the_page_names_heads_among_its_models(ask):
  from specjax.theory import drafts

  asked = ask(target="smollm2-135m", drafters=("ngram",))
  heads = drafts.medusa(576, 8192, 4, own_heads=False)
  asked.drafters["heads"] = heads
  data = roofline_page.page_data(asked, (1, 2), (512,), 10)
  text = roofline_page.render(data)
  assert '<th scope="row">heads</th><td class="n">0.005</td>' in text
