"""What the output law must be, by sorting and enumeration in float64 numpy.

Nothing here is shared with specjax.sampling.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float


@dataclasses.dataclass(frozen=True)
class Setting:
  """One row's sampling setting; the defaults are the raw law."""

  temperature: float = 1.0
  top_k: int = 0
  top_p: float = 1.0
  min_p: float = 0.0


def law_of(
  logits: Float[np.ndarray, "V"], setting: Setting
) -> Float[np.ndarray, "V"]:
  """Probabilities that a setting makes of logits, all ties at a cut kept.

  NaN is -inf, a row with nothing left is token 0, a temperature of 0 is the
  lowest id among the largest.
  """
  x = np.asarray(logits, np.float64)
  x = np.nan_to_num(x, nan=-np.inf, posinf=1e38, neginf=-np.inf)
  if np.isneginf(x).all() or setting.temperature == 0.0:
    one = np.zeros(len(x))
    one[int(np.argmax(x))] = 1.0
    return one
  x = (x - x.max()) / setting.temperature
  weights = np.exp(x)
  if setting.top_k:
    least = np.sort(weights)[::-1][min(setting.top_k, len(x)) - 1]
    weights = np.where(weights >= least, weights, 0.0)
  if setting.top_p < 1.0:
    ranked = np.sort(weights)[::-1]
    enough = np.cumsum(ranked) >= setting.top_p * ranked.sum()
    least = ranked[int(np.argmax(enough))]
    weights = np.where(weights >= least, weights, 0.0)
  if setting.min_p:
    kept = weights >= setting.min_p * weights.max()
    weights = np.where(kept, weights, 0.0)
  return weights / weights.sum()


def conditional_laws(
  table: Float[np.ndarray, "..."], setting: Setting
) -> Float[np.ndarray, "..."]:
  """The law after every context of a table model: the table's own shape."""
  table = np.asarray(table)
  rows = table.reshape(-1, table.shape[-1])
  laws = np.stack([law_of(row, setting) for row in rows])
  return laws.reshape(table.shape)


def joint_law(
  laws: Float[np.ndarray, "..."], prompt: Sequence[int], length: int
) -> Float[np.ndarray, "..."]:
  """Law of the first `length` new tokens after a prompt: shape [V] * length.

  Args:
    laws: conditional laws, [V] * order + [V].
    prompt: the text so far; token 0 stands before it.
    length: tokens to enumerate; V ** length numbers are made.
  """
  order, vocab = laws.ndim - 1, laws.shape[-1]
  start = (0,) * order + tuple(prompt)
  fixed = start[len(start) - order :]
  joint = np.ones(())
  for i in range(length):
    # The law of token i depends on the last `order` tokens: prompt, then new.
    known = laws[fixed[i:]] if i < order else laws
    free = joint.ndim - (known.ndim - 1)
    joint = joint[..., None] * known.reshape((1,) * free + known.shape)
  assert joint.shape == (vocab,) * length
  return joint


def greedy_walk(
  table: Float[np.ndarray, "..."], prompt: Sequence[int], length: int
) -> list[int]:
  """The tokens that greedy decoding emits, the lowest id winning a tie."""
  table = np.asarray(table)
  order = table.ndim - 1
  text = [0] * order + list(prompt)
  for _ in range(length):
    row = table[tuple(text[len(text) - order :])]
    text.append(int(np.argmax(law_of(row, Setting(temperature=0.0)))))
  return text[len(text) - length :]


def expected_acceptance(
  p: Float[np.ndarray, "V"], q: Float[np.ndarray, "V"], rule: str
) -> float:
  """Chance that one node drawn from q is kept under p.

  sum(min(p, q)) for token-wise rejection (Leviathan et al. 2023, corollary
  3.6), sum(p * q) for a match with the target's own sample.

  Raises:
    ValueError: another rule.
  """
  if rule == "rejection":
    return float(np.minimum(p, q).sum())
  if rule == "exact_match":
    return float((p * q).sum())
  raise ValueError(f"no closed form for rule {rule!r}: rejection, exact_match")
