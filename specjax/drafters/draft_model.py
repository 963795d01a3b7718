"""A separate, smaller model proposes a chain, drawn from its own law.

Leviathan, Kalman, Matias 2023 (arXiv 2211.17192); Chen et al. 2023 (arXiv
2302.01318).
"""

import dataclasses

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Int

from specjax import passes, sampling, trees
from specjax.drafters.chain import Chain
from specjax.models import cache as kv_cache
from specjax.types import (
  Cache,
  Feedback,
  Fresh,
  Law,
  Model,
  Params,
  Pass,
  Proposal,
  Rows,
  Slots,
  Streams,
)

# The first step feeds at most two tokens: the last committed one and, after a
# round that kept every node, the last drafted one, which nobody has fed.
HEAD = 2


@struct.dataclass
class DraftState:
  """The draft's own cache, and what this round fed beside it.

  Columns of the scratch where two tokens were missing, and where one was:

      x_c  x_c+1 | d_1 d_2 ...      ready = 2
      x_c  dead  | d_1 d_2 ...      ready = 1

  The cache holds committed tokens only, never more than all but the last.
  """

  cache: Cache
  scratch: Fresh  # [B K F Dh] twice a layer, F = 1 + num_speculative_tokens
  ready: Int[Array, "B"]  # committed tokens among the first two columns
  steps: Int[Array, "B"]  # drafted tokens fed


@dataclasses.dataclass(frozen=True)
class DraftModel(Chain):
  """Drafts up to `num_speculative_tokens` tokens with `model`.

  Its weights are `Params.draft`. A row longer than the draft's context gets no
  proposal. A row that drafted nothing for a while is caught up before it drafts
  again.
  """

  model: Model
  num_speculative_tokens: int = 4

  @property
  def _columns(self) -> int:
    return HEAD + self.num_speculative_tokens - 1

  def init(self, params: Params, batch: int, capacity: int) -> DraftState:
    return empty_state(self.model, params, batch, capacity, self._columns)

  def observe(
    self, params: Params, state: DraftState, seen: Feedback
  ) -> DraftState:
    if seen.slots is None:
      cache, _ = passes.feed_text(
        self.model, params.draft, seen.inputs, state.cache, seen.count
      )
      return dataclasses.replace(state, cache=cache)
    # Of its nodes that the round kept, the draft has fed all but the last at
    # most; what it fed and the target kept is committed.
    kept = state.ready + jnp.clip(own_kept(seen), 0, state.steps)
    index = jnp.arange(self._columns, dtype=jnp.int32)[None]
    skip_dead = HEAD - state.ready
    slots = jnp.where(
      index < state.ready[:, None], index, index + skip_dead[:, None]
    )
    return dataclasses.replace(
      state,
      cache=kv_cache.commit(
        state.cache,
        state.scratch,
        jnp.minimum(slots, self._columns - 1),
        jnp.where(seen.count > 0, kept, 0),
      ),
    )

  def propose(
    self,
    params: Params,
    state: DraftState,
    rows: Rows,
    budget: Int[Array, "B"],
    keys: Streams,
  ) -> tuple[Proposal, DraftState]:
    room = self.model.max_positions - rows.length + 1
    budget = jnp.clip(budget, 0, jnp.maximum(room, 0))
    cache = catch_up(
      self.model, params, state.cache, rows, budget, self._columns
    )
    size, batch = self.num_speculative_tokens, budget.shape[0]
    longest = budget.max()
    drafts = budget > 0
    # A row that drafts nothing never makes the others feed a second token.
    ready = jnp.minimum(rows.length - cache.length, jnp.where(drafts, HEAD, 1))
    ready = jnp.where(longest > 0, ready, 0)
    visible = kv_cache.hide_done(cache, rows.active)

    def draw(i, run: Pass, column, carry):
      """Draws node i from the law of the slot that was read out."""
      tokens, q, scratch = carry
      law = sampling.make_law(run.logits, rows.sampling)
      node = jnp.broadcast_to(i, (batch, 1))
      u = sampling.round_uniform(keys, sampling.Purpose.DRAFT, node)
      put = jax.lax.dynamic_update_slice_in_dim
      return (
        put(tokens, sampling.draw(law, u), i, 1),
        jax.tree.map(lambda rows, new: put(rows, new, i, 1), q, law),
        jax.tree.map(
          lambda all, new: put(all, new, column, 2), scratch, run.fresh
        ),
      )

    def start(carry):
      run = feed_end(self.model, params, visible, rows, ready)
      return draw(0, run, 0, carry)

    def step(i, carry):
      """Feeds node i - 1, which stands at depth i."""
      tokens, _, scratch = carry
      slots = Slots(
        tokens=jax.lax.dynamic_slice_in_dim(tokens, i - 1, 1, 1),
        positions=(rows.length - 1 + i)[:, None],
        mask=self._sees(ready, jnp.asarray(i)),
      )
      run = self.model(params.draft, slots, visible, scratch=scratch)
      return draw(i, run, HEAD + i - 1, carry)

    vocab = self.model.vocab_size
    rows_of_q = jnp.zeros((batch, size))
    q = Law(jnp.zeros((batch, size, vocab)), rows_of_q, rows_of_q)
    carry = (jnp.zeros((batch, size), jnp.int32), q, state.scratch)
    carry = jax.lax.cond(longest > 0, start, lambda carry: carry, carry)
    tokens, q, scratch = jax.lax.fori_loop(1, longest, step, carry)
    proposal = Proposal(
      nodes=trees.chain(tokens, budget),
      q=q,
      q_row=jnp.arange(size, dtype=jnp.int32)[None],
    )
    steps = jnp.where(drafts, longest - 1, 0)
    return proposal, DraftState(cache, scratch, ready, steps)

  def _sees(
    self, ready: Int[Array, "B"], step: Int[Array, ""]
  ) -> Bool[Array, "B 1 _"]:
    """Scratch columns of text and of nodes before this one, then itself."""
    column = jnp.arange(self._columns)[None]
    text = column < ready[:, None]
    node = (column >= HEAD) & (column < HEAD + step - 1)
    seen = text | node
    return jnp.pad(seen, ((0, 0), (0, 1)), constant_values=True)[:, None]


def own_kept(seen: Feedback) -> Int[Array, "B"]:
  """How many of the drafter's nodes a round kept, the last emitted token apart.

  Fewer than were emitted where another drafter's nodes stood in the same pass.
  """
  most = seen.count - 1
  return most if seen.accepted is None else jnp.minimum(seen.accepted, most)


def empty_state(
  model: Model, params: Params, batch: int, capacity: int, columns: int
) -> DraftState:
  """Of rows without a token.

  Raises:
    ValueError: no weights.
  """
  if params.draft is None:
    raise ValueError("a draft model needs its weights: give draft=")
  cache = model.init_cache(batch, capacity)
  zero = jnp.zeros((batch, columns), jnp.int32)
  wide = Slots(zero, zero, passes.causal(zero))

  def feed():
    return model(params.draft, wide, cache).fresh.kv

  shapes = jax.eval_shape(feed)  # no typed field may hold a shape
  return DraftState(
    cache=cache,
    scratch=Fresh(jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)),
    ready=zero[:, 0],
    steps=zero[:, 0],
  )


def catch_up(
  model: Model,
  params: Params,
  cache: Cache,
  rows: Rows,
  budget: Int[Array, "B"],
  chunk: int,
) -> Cache:
  """Reads what rows that now draft have missed, but for the last tokens."""

  def far(cache: Cache):
    return (budget > 0) & (rows.length - cache.length > HEAD)

  def read(cache: Cache) -> Cache:
    until = jnp.where(far(cache), rows.length - 1, 0)
    cache, _ = passes.read_text(
      model, params.draft, rows.tokens, cache, until, chunk
    )
    return cache

  return jax.lax.while_loop(lambda cache: far(cache).any(), read, cache)


def feed_end(
  model: Model, params: Params, cache: Cache, rows: Rows, ready: Int[Array, "B"]
) -> Pass:
  """Feeds `ready` tokens of the text that the cache lacks: one, or two.

  Returns:
    the pass, with logits after the last of them and K/V of HEAD columns.
  """

  def feed(width: int) -> Pass:
    tokens = passes.gather_tokens(rows.tokens, cache.length, width)
    index = jnp.arange(width, dtype=jnp.int32)[None]
    positions = cache.length[:, None] + index
    slots = Slots(tokens, positions, passes.causal(positions))
    last = jnp.clip(ready - 1, 0, width - 1)[:, None]
    run = model(params.draft, slots, cache, readout=last)
    extra = ((0, 0), (0, 0), (0, HEAD - width), (0, 0))
    fresh = jax.tree.map(lambda x: jnp.pad(x, extra), run.fresh)
    return dataclasses.replace(run, fresh=fresh)

  return jax.lax.cond((ready > 1).any(), lambda: feed(HEAD), lambda: feed(1))
