"""Shares of repeated 8-grams, counted by hand."""

import pytest

from specjax.evaluation.repeats import repeated_share


@pytest.mark.parametrize(
  "tokens, share",
  [
    ([], 0.0),
    (range(7), 0.0),  # no 8-gram
    (range(100), 0.0),
    ([5] * 8, 0.0),
    ([5] * 10, 2 / 3),  # three 8-grams, one of them new
    ([*range(8), *range(8)], 1 / 9),  # nine, of which the last came first
  ],
)
def test_share(tokens, share):
  assert repeated_share(list(tokens)) == pytest.approx(share)
