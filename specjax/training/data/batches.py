"""Batches as a pure function of (seed, step): resuming needs no state.

Texts are cut into windows of one length. Two windows of a text share a token,
the last of one and the first of the next, so that each law is learnt once:

  tokens   a b c d e f g          length 4
  windows  a b c d | d e f g      the last position of each is not learnt: the
  mask     x x x . | x x x .      token that follows it is not in its window

With `bucket` rows of like length come together, and a batch is as wide as its
longest row needs: little is padding, and there are few widths to compile for.
An epoch is whole batches then, and leaves out the few windows that make none.
"""

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from specjax.training.data.identity import same_model
from specjax.training.data.store import Span, Store
from specjax.training.types import Batch, Teacher

_BLOCK = 1000  # rows in which the proportions of stores are kept exactly
_POOL = 16  # batches whose rows are sorted by length


@dataclasses.dataclass(frozen=True)
class Window:
  """Tokens [start, end) of a text of a store, some of which are learnt."""

  text: int
  start: int
  end: int

  @property
  def size(self) -> int:
    return self.end - self.start


class Batches:
  """Batches of one or more stores; `batches(step)` is the step's.

  Every store is gone through in epochs, each a permutation of its windows. Rows
  are drawn from the stores in fixed proportions, on- and off-policy contexts
  for one (Zhou et al. 2023, DistillSpec, arXiv 2310.08461).
  """

  def __init__(
    self,
    stores: Sequence[Store],
    *,
    batch: int,
    length: int,
    seed: int = 0,
    proportions: Sequence[int | float] | None = None,
    side: str = "train",
    held_out: float = 0.05,
    top_k: int | None = None,
    taps: Sequence[str] | None = None,
    bucket: int | None = None,
    prompts: bool = False,
  ):
    """Args:
      stores: of one target.
      batch: B, rows.
      length: L, tokens of a row; longer texts give several windows.
      seed: of all permutations.
      proportions: of rows from each store, in any unit; None is by windows.
      side: of the split by prompt.
      held_out: share of prompts that are kept from training.
      top_k: K, at most what every store has; None is all, and they agree.
      taps: features wanted; None is all, and the stores agree.
      bucket: a batch has the smallest multiple of so many tokens that holds
        its rows, L at most; None is L always.
      prompts: the laws inside prompts are learnt too, not of answers alone.

    Raises:
      ValueError: stores of other targets or settings, one without windows on
        this side, or a number out of its range.
    """
    if batch < 1 or length < 2:
      raise ValueError(f"no batch of {batch} rows of {length} tokens")
    if bucket is not None and bucket < 1:
      raise ValueError(f"bucket must be at least 1, got {bucket}")
    _check_stores(stores, top_k is None, taps is None)
    stored = stores[0].settings
    self.top_k = stored["top_k"] if top_k is None else top_k
    self.taps = tuple(stored["taps"] if taps is None else taps)
    for one in stores:
      check_stored(one.settings, self.top_k, self.taps)
    self.batch, self.length, self._seed = batch, length, seed
    self._bucket, self._prompts = bucket, prompts
    self._stores = tuple(stores)
    self._windows = tuple(
      cut_windows(s, s.side(side, held_out), length, prompts) for s in stores
    )
    empty = [
      s.path for s, w in zip(stores, self._windows, strict=True) if not w
    ]
    if empty:
      raise ValueError(f"{empty[0]} has no text to learn from on side {side!r}")
    if proportions is None:
      proportions = [len(windows) for windows in self._windows]
    self._counts = _counts(np.asarray(proportions, float), len(stores))
    self._order = functools.lru_cache(maxsize=8)(self._permute)
    self._pattern = functools.lru_cache(maxsize=8)(self._mix)

  @property
  def windows(self) -> int:
    """Windows of all stores."""
    return sum(len(windows) for windows in self._windows)

  @property
  def padding(self) -> float:
    """Share of the windows' positions that hold no token."""
    used = sum(w.size for windows in self._windows for w in windows)
    return 1 - used / (self.windows * self.length)

  @property
  def answered(self) -> int:
    """Laws to learn in all windows once."""
    return sum(
      int(self._learnt(store.tokens(w.text)[1])[w.start : w.end - 1].sum())
      for store, windows in zip(self._stores, self._windows, strict=True)
      for w in windows
    )

  def __call__(self, step: int) -> Batch:
    """The batch of a step, 0 or more: the same whenever it is asked for."""
    rows = range(step * self.batch, (step + 1) * self.batch)
    return self._pack([self._draw(row) for row in rows])

  def once(self) -> Iterator[Batch]:
    """Every window once, in the stores' order or by length; the last batch is
    filled up with rows of padding."""
    drawn = [(s, w) for s, windows in enumerate(self._windows) for w in windows]
    if self._bucket is not None:
      drawn.sort(key=lambda one: one[1].size)
    for first in range(0, len(drawn), self.batch):
      yield self._pack(drawn[first : first + self.batch])

  def _draw(self, row: int) -> tuple[int, Window]:
    """The window of a row, counted over all steps.

    In every block of rows each store has its share exactly, in a drawn order:
    how many of a store's came before follows without going through them.
    """
    block, place = divmod(row, _BLOCK)
    pattern = self._pattern(block)
    store = int(pattern[place])
    earlier = int((pattern[:place] == store).sum())
    drawn = block * self._counts[store] + earlier
    windows = self._windows[store]
    epoch, index = divmod(drawn, self._epoch(store))
    return store, windows[self._order(store, epoch)[index]]

  def _mix(self, block: int) -> Int[np.ndarray, "n"]:
    stores = np.repeat(np.arange(len(self._counts)), self._counts)
    return np.random.default_rng([self._seed, 0, block]).permutation(stores)

  def _epoch(self, store: int) -> int:
    """Windows of an epoch."""
    size = len(self._windows[store])
    if self._bucket is None or size < self.batch:
      return size
    return size - size % self.batch

  def _permute(self, store: int, epoch: int) -> Int[np.ndarray, "n"]:
    size = len(self._windows[store])
    rng = np.random.default_rng([self._seed, 1, store, epoch])
    order = rng.permutation(size)
    if self._bucket is None:
      return order
    lengths = np.asarray([w.size for w in self._windows[store]])
    order, pool, rows = order[: self._epoch(store)], _POOL * self.batch, []
    for first in range(0, len(order), pool):
      part = order[first : first + pool]
      part = part[np.argsort(lengths[part], kind="stable")]
      rows += np.split(part, range(self.batch, len(part), self.batch))
    return np.concatenate([rows[i] for i in rng.permutation(len(rows))])

  def _width(self, spans: Sequence[Span]) -> int:
    if self._bucket is None:
      return self.length
    longest = max(len(span.tokens) for span in spans)
    return min(-(-longest // self._bucket) * self._bucket, self.length)

  def _span(self, store: int, window: Window, taps: Sequence[str]) -> Span:
    return self._stores[store].read(window.text, window.start, window.end, taps)

  def _learnt(self, mask: Bool[np.ndarray, "L"]) -> Bool[np.ndarray, "L"]:
    return np.ones_like(mask) if self._prompts else mask

  def _pack(self, drawn: Sequence[tuple[int, Window]]) -> Batch:
    spans = [self._span(store, window, self.taps) for store, window in drawn]
    shape, k = (self.batch, self._width(spans)), self.top_k
    tokens = np.zeros(shape, np.int32)
    mask = np.zeros(shape, bool)
    ids = np.zeros((*shape, k), np.int32)
    log_probs = np.full((*shape, k), -np.inf, np.float32)
    log_tail = np.zeros(shape, np.float32)
    features = {
      name: np.zeros((*shape, x.shape[-1]), np.float32)
      for name, x in spans[0].features.items()
    }
    for row, span in enumerate(spans):
      at = row, slice(len(span.tokens))
      tokens[at] = span.tokens
      mask[row, : len(span.tokens) - 1] = self._learnt(span.mask)[:-1]
      ids[at] = span.top_ids[:, :k]
      log_probs[at] = span.top_log_probs[:, :k]
      log_tail[at] = _tail(span, k)
      for name, x in span.features.items():
        features[name][at] = x
    return Batch(
      tokens=jnp.asarray(tokens),
      mask=jnp.asarray(mask),
      teacher=Teacher(
        ids=jnp.asarray(ids),
        log_probs=jnp.asarray(log_probs),
        log_tail=jnp.asarray(log_tail),
      ),
      features={name: jnp.asarray(x) for name, x in features.items()},
    )


def cut_windows(
  store: Store, texts: Sequence[int], length: int, prompts: bool = False
) -> list[Window]:
  """Windows of texts with something to learn in them; see the module.

  Args:
    prompts: whether prompts are to be learnt too.
  """
  found = []
  for text in texts:
    size = store.entries[text].size
    mask = store.tokens(text)[1]
    for start in range(0, max(size - 1, 1), length - 1):
      end = min(start + length, size)
      if mask[start : end - 1].any() or (prompts and end > start + 1):
        found.append(Window(text, start, end))
  return found


def _tail(span: Span, top_k: int):
  """Log of the mass outside the first top_k tokens."""
  rest = span.top_log_probs[:, top_k:].astype(np.float32)
  both = np.concatenate([rest, span.log_tail[:, None]], 1)
  return np.logaddexp.reduce(both, 1)


def _counts(shares: Float[np.ndarray, "..."], stores: int) -> list[int]:
  """Rows of a block from each store: largest remainders."""
  if shares.shape != (stores,) or not (shares >= 0).all() or not shares.sum():
    raise ValueError(
      f"proportions {shares.tolist()} for {stores} stores: give each 0 or"
      " more, not all 0"
    )
  exact = shares / shares.sum() * _BLOCK
  counts = np.floor(exact).astype(int)
  most = np.argsort(-(exact - counts), kind="stable")
  counts[most[: _BLOCK - counts.sum()]] += 1
  return counts.tolist()


def check_stored(stored: Mapping[str, Any], top_k: int, taps: Sequence[str]):
  """Raises ValueError where a store lacks what is wanted, in one line.

  Args:
    stored: `Store.settings`.
  """
  if not 1 <= top_k <= stored["top_k"]:
    raise ValueError(
      f"top_k must be 1 to {stored['top_k']}, as stored, got {top_k}"
    )
  if unknown := sorted(set(taps) - set(stored["taps"])):
    raise ValueError(
      f"no feature {unknown[0]!r} is stored: there are {stored['taps']}"
    )


def _check_stores(stores: Sequence[Store], top_k: bool, taps: bool) -> None:
  """One target; one K and the same taps where all of them are taken."""
  if not stores:
    raise ValueError("there is no store to draw from")
  names = ("model", *("top_k",) * top_k, *("taps",) * taps)
  for other in stores[1:]:
    for name in names:
      a, b = stores[0].settings[name], other.settings[name]
      if a != b and not (name == "model" and same_model(a, b)):
        raise ValueError(
          f"{other.path} and {stores[0].path} cannot be mixed: {name} is {b!r}"
          f" and {a!r}"
        )
