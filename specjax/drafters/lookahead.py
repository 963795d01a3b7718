"""Lookahead decoding: the target writes n-grams beside the text, for later.

Fu et al. 2024 (arXiv 2402.02057, section 3 and algorithm 2); LookaheadDecoding
is the authors' code.
"""

import dataclasses

import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Int

from specjax import passes, sampling, trees
from specjax.drafters import ngram_pool
from specjax.drafters.jacobi import likeliest
from specjax.types import (
  Feedback,
  Nodes,
  Params,
  Proposal,
  Rows,
  Streams,
)


@struct.dataclass
class LookaheadState:
  """What a row keeps."""

  window: Int[Array, "B L W"]  # L = ngram - 1; (0, 0) is not used
  age: Int[Array, "B"]  # rounds that the window has run
  pool: Int[Array, "B M ngram"]  # see ngram_pool.py
  before: Int[Array, "B k"]  # ngram - 2 tokens before the last of the text


@dataclasses.dataclass(frozen=True)
class Lookahead:
  """Judges n-grams of a pool that a window of riders fills.

  The window, W = 4 and N = 4. Row 0 is a chain from the last token x, every
  column hangs from it, and the likeliest tokens `n` after the last row are the
  next one: all rows move up, row 0 goes. A column with its `n` is an n-gram.

  depth   0   1   2   3   4   5   6     mask of c_1: x, a_1, b_1, c_1
  row 0   x  a_1 a_2 a_3
  row 1      b_0 b_1 b_2 b_3            n-gram x b_0 c_0 n_0
  row 2          c_0 c_1 c_2 c_3        n-gram a_1 b_1 c_1 n_1
  next               n_0 n_1 n_2 n_3

  The n-grams that begin with the last token are judged, the newest `guesses` of
  them, and those that begin alike share nodes. They are point masses, so the
  output is exact at any temperature.

  As in the authors' code the window moves by one however many tokens were
  kept, and is generated greedily. What is otherwise here:
  - One pool a row, of the last `pool_size` n-grams in the order in which they
    were last seen, where the code has a list of `guesses` for each first token.
    The same n-grams are judged until one of those has left the pool.
  - All rows of the window begin as random tokens of the text, and nothing goes
    to the pool until they are out, ngram - 2 rounds later. The code grows the
    window by a row a round, and judges nothing meanwhile.
  - An end of text stays in the window: a drafter does not know which it is.

  Attributes:
    window: W, columns.
    ngram: N. Up to N - 1 tokens are kept, and the target's own follows.
    guesses: G, n-grams judged in a round.
    from_prompt: the text's own n-grams go to the pool too, the prompt's first.
    pool_size: n-grams of a row's pool.

  Raises:
    ValueError: a size that is no whole number or is too small.
  """

  window: int = 15
  ngram: int = 5
  guesses: int = 15
  from_prompt: bool = False
  pool_size: int = 4096

  siblings = "point"
  taps = ()
  reads_logits = True

  def __post_init__(self):
    least = dict(window=2, ngram=2, guesses=1, pool_size=self.guesses)
    for name, smallest in least.items():
      value = getattr(self, name)
      if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{name} must be a whole number, got {value!r}")
      if value < smallest:
        raise ValueError(
          f"{name} of lookahead must be at least {smallest}, got {value}"
        )

  @property
  def max_depth(self) -> int:
    return self.ngram - 1

  @property
  def num_nodes(self) -> int:
    return self.guesses * self.max_depth

  @property
  def num_riders(self) -> int:
    return self.window * self.max_depth - 1

  @property
  def widths(self) -> tuple[int, ...]:
    return (1, 1 + self.num_nodes + self.num_riders)

  def init(self, params: Params, batch: int, capacity: int) -> LookaheadState:
    shape = (batch, self.max_depth, self.window)
    return LookaheadState(
      window=jnp.zeros(shape, jnp.int32),
      age=jnp.zeros((batch,), jnp.int32),
      pool=ngram_pool.empty(batch, self.pool_size, self.ngram),
      before=jnp.full((batch, self.ngram - 2), ngram_pool.NONE, jnp.int32),
    )

  def observe(
    self, params: Params, state: LookaheadState, seen: Feedback
  ) -> LookaheadState:
    found = []
    if seen.logits is not None:
      state, grams = self._move(state, seen)
      found.append(grams)
    if self.from_prompt:
      state, grams = self._read(state, seen)
      found.append(grams)
    if not found:
      return state
    grams, there = (jnp.concatenate(x, 1) for x in zip(*found, strict=True))
    pool = ngram_pool.remember(state.pool, grams, there)
    return dataclasses.replace(state, pool=pool)

  def propose(
    self,
    params: Params,
    state: LookaheadState,
    rows: Rows,
    budget: Int[Array, "B"],
    keys: Streams,
  ) -> tuple[Proposal, LookaheadState]:
    fresh = (budget > 0) & (state.age == 0)
    drawn = passes.confined(fresh.any(), lambda: self._draw(rows, keys))
    window = jnp.where(fresh[:, None, None], drawn, state.window)
    state = dataclasses.replace(state, window=window)

    judged = self._judged(state.pool, rows, budget)
    batch = budget.shape[0]
    riders = window.reshape(batch, -1)[:, 1:]  # all but (0, 0), row by row
    hung = jnp.asarray(self._hung(), jnp.int32)[None]
    hung = jnp.broadcast_to(hung, riders.shape)
    nodes = dataclasses.replace(
      judged,
      tokens=jnp.concatenate([judged.tokens, riders], 1),
      parents=jnp.concatenate([judged.parents, hung], 1),
      rider_count=jnp.where(budget > 0, self.num_riders, 0),
    )
    return Proposal(nodes), state

  def _move(self, state: LookaheadState, seen: Feedback):
    """(state with the window moved by a row, its n-grams and which count)."""
    assert seen.logits is not None and seen.nodes is not None
    at = jnp.asarray([self._slot(-1, i) for i in range(self.window)])
    new = likeliest(seen.logits[:, at])
    rows = jnp.concatenate([state.window, new[:, None]], 1)
    grams = rows.at[:, 0, 0].set(seen.inputs[:, 0]).swapaxes(1, 2)
    ran = (seen.count > 0) & (seen.nodes.rider_count > 0)
    full = ran & (state.age >= self.ngram - 2)
    state = dataclasses.replace(
      state,
      window=jnp.where(ran[:, None, None], rows[:, 1:], state.window),
      age=state.age + ran,
    )
    return state, (grams, jnp.broadcast_to(full[:, None], new.shape))

  def _read(self, state: LookaheadState, seen: Feedback):
    """(state, n-grams that end in what the text went on with)."""
    line = jnp.concatenate([state.before, seen.inputs[:, :1], seen.emitted], 1)
    size = seen.emitted.shape[1]
    grams = [line[:, i : i + size] for i in range(self.ngram)]
    there = jnp.arange(size)[None] < seen.count[:, None]
    before = passes.gather_tokens(line, seen.count, self.ngram - 2)
    state = dataclasses.replace(state, before=before)
    return state, (jnp.stack(grams, -1), there)

  def _slot(self, level: int, column: int) -> int:
    """Slot of the window's (level, column); (0, 0) is the last token's."""
    place = level % self.max_depth * self.window + column
    return self.num_nodes + place if place else 0

  def _hung(self) -> list[int]:
    """The slot from which each rider hangs."""
    row = [self._slot(0, i - 1) for i in range(1, self.window)]
    return row + [
      self._slot(level - 1, i)
      for level in range(1, self.max_depth)
      for i in range(self.window)
    ]

  def _draw(self, rows: Rows, keys: Streams) -> Int[Array, "B L W"]:
    """Random tokens of the text."""
    batch, shape = rows.length.shape[0], (self.max_depth, self.window)
    node = jnp.arange(self.max_depth * self.window, dtype=jnp.int32)
    node = jnp.broadcast_to(node, (batch, node.shape[0]))
    u = sampling.round_uniform(keys, sampling.Purpose.DRAFT, node)
    at = (u * rows.length[:, None]).astype(jnp.int32)
    return jnp.take_along_axis(rows.tokens, at, 1).reshape(batch, *shape)

  def _judged(
    self,
    pool: Int[Array, "B M ngram"],
    rows: Rows,
    budget: Int[Array, "B"],
  ) -> Nodes:
    """The newest n-grams that go on from the last token, merged by prefix."""
    last = passes.gather_tokens(rows.tokens, rows.length - 1, 1)[:, 0]
    wanted = (budget > 0) & ngram_pool.has(pool, last)

    def merged():
      grams, there = ngram_pool.newest(pool, last, self.guesses)
      step = jnp.arange(self.max_depth, dtype=jnp.int32)[None, None]
      there = there[..., None] & (step < budget[:, None, None])
      forest = trees.chains(grams[..., 1:])
      there = there.reshape(forest.tokens.shape)
      return trees.merge_siblings(forest, there).nodes

    return passes.confined(wanted.any(), merged)
