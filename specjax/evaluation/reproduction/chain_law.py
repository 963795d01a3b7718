"""The law of texts that rounds of a chain give, by enumeration in numpy.

It shares no code with the rules of `specjax.acceptance`.
"""

from collections import defaultdict
from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

Texts = dict[tuple[int, ...], float]


def text_law(
  p: Float[np.ndarray, "V V"],
  q: Float[np.ndarray, "V V"],
  start: int,
  num_speculative_tokens: int,
  length: int,
  biased: bool = False,
) -> Float[np.ndarray, "S"]:
  """Law of the first `length` tokens under algorithm 1, round after round.

  Args:
    p, q: laws of a bigram target and draft, a row a last token.
    start: the context of the first token.
    biased: a refused token is replaced from p, not from the residual.

  Returns:
    Probabilities of the V^length texts in base V, first token first.
  """
  size = len(p)
  rounds = [
    _round(p, q, last, num_speculative_tokens, biased) for last in range(size)
  ]
  going: Texts = {(): 1.0}
  done = np.zeros((size,) * length)
  while going:
    grown: defaultdict[tuple[int, ...], float] = defaultdict(float)
    for text, mass in going.items():
      for burst, chance in rounds[text[-1] if text else start].items():
        grown[(*text, *burst)[:length]] += mass * chance
    going = {text: m for text, m in grown.items() if len(text) < length}
    for text, mass in grown.items():
      if len(text) == length:
        done[text] += mass
  return done.reshape(-1)


def _round(p, q, last: int, gamma: int, biased: bool) -> Mapping:
  """Bursts of a round after a token, and their chances."""
  if gamma == 0:
    return {(x,): float(p[last, x]) for x in range(len(p))}
  kept = np.minimum(p[last], q[last])
  left = p[last] if biased else np.maximum(p[last] - q[last], 0.0)
  mass = left.sum()
  bursts: defaultdict[tuple[int, ...], float] = defaultdict(float)
  for x in range(len(p)):
    if mass:
      bursts[(x,)] += float((1 - kept.sum()) * left[x] / mass)
    for tail, chance in _round(p, q, x, gamma - 1, biased).items():
      bursts[(x, *tail)] += float(kept[x]) * chance
  return bursts
