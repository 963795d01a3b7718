"""Stop strings as one automaton over tokens.

Aho and Corasick (1975), "Efficient string matching", over bytes; a token's
transition is the composition of its bytes'.
"""

from collections import deque
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from specjax.text.base import TextError
from specjax.text.tokenizer import Tokenizer


def stop_tables(
  tokens: Tokenizer | Sequence[bytes],
  stops: Sequence[str | bytes],
  width: int | None = None,
) -> Int[np.ndarray, "states V"]:
  """State after each token, from each state.

  State 0 is the start and `states - 1` is HIT: some stop string has ended
  inside a token since. HIT is absorbing.

  Args:
    tokens: bytes by id, or the tokenizer that has them.
    stops: strings that end a generation; none gives a table that never hits.
    width: of a padded vocabulary; ids past the tokens leave the state alone.

  Raises:
    TextError: an empty stop string, or a width below the vocabulary.
  """
  pieces = tokens.token_bytes() if isinstance(tokens, Tokenizer) else tokens
  width = len(pieces) if width is None else width
  if width < len(pieces):
    raise TextError(f"a width of {width} is less than {len(pieces)} tokens")
  table = _byte_automaton(_as_bytes(stops))
  lengths = np.array([len(piece) for piece in pieces], np.int64)
  order = np.argsort(-lengths, kind="stable")
  longest = [pieces[index] for index in order]
  states = np.tile(np.arange(len(table), dtype=np.int32)[:, None], (1, width))
  current = states[:, : len(pieces)].copy()
  for depth in range(int(lengths.max(initial=0))):
    alive = int(np.searchsorted(-lengths[order], -depth))
    column = np.frombuffer(
      bytes(piece[depth] for piece in longest[:alive]), np.uint8
    )
    current[:, :alive] = table[current[:, :alive], column]
  states[:, order] = current
  return states


def cut_at_stop(text: bytes, stops: Sequence[str | bytes]) -> bytes | None:
  """Text before the stop string that ends first, or None if there is none.

  Of stop strings that end at the same byte the longest counts.
  """
  ends = [
    (text.find(stop) + len(stop), -len(stop))
    for stop in _as_bytes(stops)
    if stop in text
  ]
  if not ends:
    return None
  end, negative = min(ends)
  return text[: end + negative]


def safe_length(text: bytes, stops: Sequence[str | bytes]) -> int:
  """How much of a stream may be shown: no stop string can begin before it.

  Args:
    text: what was decoded so far, free of whole stop strings.
  """
  held = 0
  for stop in _as_bytes(stops):
    sizes = range(min(len(stop) - 1, len(text)), held, -1)
    held = next((n for n in sizes if text.endswith(stop[:n])), held)
  return len(text) - held


def _as_bytes(stops: Sequence[str | bytes]) -> list[bytes]:
  if isinstance(stops, (str, bytes)):
    raise TextError("stop strings must be a list of strings")
  encoded = [
    stop.encode("utf-8") if isinstance(stop, str) else stop for stop in stops
  ]
  if not all(encoded):
    raise TextError("a stop string must not be empty")
  return encoded


def _byte_automaton(stops: Sequence[bytes]) -> Int[np.ndarray, "states 256"]:
  """Goto and failure links folded into one table; matches go to HIT."""
  children: list[dict[int, int]] = [{}]
  ends: set[int] = set()
  for stop in stops:
    node = 0
    for byte in stop:
      if byte not in children[node]:
        children[node][byte] = len(children)
        children.append({})
      node = children[node][byte]
    ends.add(node)
  table = np.zeros((len(children), 256), np.int32)
  live, queue = [], deque([(0, 0)])
  while queue:
    node, fail = queue.popleft()
    # Breadth first, so the shorter `fail` is settled: a node that it hits at
    # hits too, and nothing below a hit is ever reached.
    if node in ends or fail in ends:
      ends.add(node)
      continue
    live.append(node)
    # The root's own row is still zero here, which is its fallback.
    row = table[fail].copy()
    for byte, child in children[node].items():
      queue.append((child, int(row[byte]) if node else 0))
      row[byte] = child
    table[node] = row
  numbers = np.full(len(children), len(live), np.int32)
  numbers[live] = np.arange(len(live))
  return np.vstack(
    [numbers[table[live]], np.full((1, 256), len(live), np.int32)]
  )
