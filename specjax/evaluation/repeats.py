"""How much of a text says what it already said, which flatters lookup."""

from collections.abc import Sequence

_GRAM = 8


def repeated_share(tokens: Sequence[int], size: int = _GRAM) -> float:
  """Share of the `size`-grams that came before in the same text; 0 is none.

  Outputs above 0.15 are left out of a headline.
  """
  grams = [tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1)]
  return 1 - len(set(grams)) / len(grams) if grams else 0.0
