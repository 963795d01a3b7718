"""Reduced vocabularies: offsets (EAGLE-3), ids (vLLM's Medusa), and ours.

draft id j        0  1  2
target id         1  4  5      what a drafter's file holds here, ascending
d2t               1  3  3      target id = j + d2t[j]
t2d   0 1 0 0 1 1 0            over the target's ids
token_map         1  4  5      in any order
"""

import numpy as np
from jaxtyping import Bool, Int


def to_offsets(
  token_ids: Int[np.ndarray, "Vq"], vocab_size: int
) -> dict[str, np.ndarray]:
  """d2t [Vq], int64, and t2d [V] of ascending target ids."""
  ids = token_ids.astype(np.int64)
  t2d = np.zeros(vocab_size, bool)
  t2d[ids] = True
  return {"d2t": ids - np.arange(len(ids)), "t2d": t2d}


def from_offsets(
  d2t: Int[np.ndarray, "Vq"],
  t2d: Bool[np.ndarray, "V"] | None,
  vocab_size: int,
) -> Int[np.ndarray, "Vq"]:
  """Target ids in the order of the draft's; t2d, where it is there, must agree.

  Raises:
    ValueError: ids outside of the vocabulary or twice, or not those of t2d.
  """
  ids = np.arange(len(d2t)) + d2t
  _check(ids, vocab_size, "d2t")
  if t2d is not None:
    if not np.array_equal(np.flatnonzero(t2d), np.sort(ids)):
      raise ValueError("d2t and t2d are not of one vocabulary: was one lost?")
  return ids


def from_map(
  token_map: Int[np.ndarray, "Vq"], vocab_size: int
) -> Int[np.ndarray, "Vq"]:
  """Target ids of a token_map.

  Raises:
    ValueError: ids outside of the vocabulary or twice.
  """
  _check(token_map, vocab_size, "token_map")
  return token_map


def _check(ids: np.ndarray, vocab_size: int, name: str) -> None:
  if not np.issubdtype(ids.dtype, np.integer) or ids.ndim != 1:
    raise ValueError(f"{name} is no list of integers")
  if len(ids) and (ids.min() < 0 or ids.max() >= vocab_size):
    raise ValueError(f"{name} names tokens outside of {vocab_size}")
  if len(np.unique(ids)) != len(ids):
    raise ValueError(f"{name} names a token twice")
