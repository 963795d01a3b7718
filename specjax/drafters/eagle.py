"""EAGLE: a layer over the target's features drafts a chain.

Li et al. 2024 (arXiv 2401.15077, section 4) and 2025 (arXiv 2503.01840, section
3). As a chain; eagle_tree.py has EAGLE-2's trees of the same weights.
"""

import dataclasses
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Float, Int

from specjax import passes, sampling, trees
from specjax.drafters.chain import Chain
from specjax.models import cache as kv_cache
from specjax.models.eagle import EagleHead
from specjax.models.eagle_config import EagleConfig
from specjax.models.reduced import to_target_vocabulary
from specjax.types import (
  Cache,
  Feedback,
  Fresh,
  Law,
  Params,
  Proposal,
  Rows,
  Slots,
  Streams,
)


@struct.dataclass
class EagleState:
  """K/V of the pairs (f_i, t_i+1) of the committed text, and the last output.

      text     t_0 t_1 t_2 t_3        4 tokens
      pairs    f_0 f_1 f_2            cache.length 3
               t_1 t_2 t_3            hidden: what the third gave

  Only the target's features enter it: the keys, values and hidden states of a
  round's own nodes are dropped with the round.
  """

  cache: Cache
  hidden: Float[Array, "B d"]


class OverFeatures:
  """What EAGLE's drafters keep of a text; they differ in what they propose.

  A base for frozen dataclasses, which declare `config`.
  """

  if TYPE_CHECKING:  # a field of the dataclass, wherever it stands there

    @property
    def config(self) -> EagleConfig: ...

  @property
  def taps(self) -> tuple[str, ...]:
    return self.config.taps

  @property
  def _head(self) -> EagleHead:
    return EagleHead(self.config)

  def init(self, params: Params, batch: int, capacity: int) -> EagleState:
    if params.draft is None:
      raise ValueError("EAGLE needs trained weights: give draft=")
    layer = self.config.layer
    hidden = jnp.zeros((batch, layer.hidden_size), layer.dtype)
    return EagleState(self._head.init_cache(batch, capacity), hidden)

  def observe(
    self, params: Params, state: EagleState, seen: Feedback
  ) -> EagleState:
    cache, some = state.cache, seen.count > 0
    index = jnp.arange(seen.emitted.shape[1], dtype=jnp.int32)[None]
    positions = cache.length[:, None] + index
    slots = Slots(seen.emitted, positions, passes.causal(positions))

    def run():
      visible = kv_cache.hide_done(cache, some)
      hidden = self._head.fuse(params.draft, seen.taps)
      hidden, fresh = self._head.feed(params.draft, slots, hidden, visible)
      last = jnp.maximum(seen.count - 1, 0)[:, None, None]
      return jnp.take_along_axis(hidden, last, 1)[:, 0], fresh

    last, fresh = passes.confined(some.any(), run)
    order = jnp.broadcast_to(index, seen.emitted.shape)
    return EagleState(
      cache=kv_cache.commit(cache, fresh, order, seen.count),
      hidden=jnp.where(some[:, None], last, state.hidden),
    )

  def _room(
    self, state: EagleState, budget: Int[Array, "B"]
  ) -> Int[Array, "B"]:
    """The budget, cut where a row has no features or no positions left.

    The last pair fed stands at cache.length - 1 + budget - 1.
    """
    length = state.cache.length
    room = jnp.maximum(self.config.layer.max_positions - length + 1, 0)
    return jnp.where(length > 0, jnp.clip(budget, 0, room), 0)


@dataclasses.dataclass(frozen=True)
class Eagle(OverFeatures, Chain):
  """Drafts up to `num_speculative_tokens` tokens; versions 1 and 3.

  `Params.draft` is an `EagleParams`. Nodes are drawn from the draft's law at
  the row's own temperature and filters. A row without features (a prompt of
  one token, before its first round) and one past `max_positions` get no
  proposal.
  """

  config: EagleConfig
  num_speculative_tokens: int = 4

  def propose(
    self,
    params: Params,
    state: EagleState,
    rows: Rows,
    budget: Int[Array, "B"],
    keys: Streams,
  ) -> tuple[Proposal, EagleState]:
    cache, size = state.cache, self.num_speculative_tokens
    batch, vocab = budget.shape[0], self.config.layer.vocab_size
    budget = self._room(state, budget)
    visible = kv_cache.hide_done(cache, budget > 0)
    longest = budget.max()
    fed = max(size - 1, 1)  # columns of scratch: the last node is never fed
    column = jnp.arange(fed + 1)[None, None]

    def draw(i, hidden, carry):
      """Draws node i from what its parent gave."""
      tokens, q, _, scratch = carry
      law = sampling.make_law(self._logits(params, hidden), rows.sampling)
      node = jnp.broadcast_to(i, (batch, 1))
      u = sampling.round_uniform(keys, sampling.Purpose.DRAFT, node)
      put = jax.lax.dynamic_update_slice_in_dim
      tokens = put(tokens, sampling.draw(law, u), i, 1)
      q = jax.tree.map(lambda rows, new: put(rows, new, i, 1), q, law)
      return tokens, q, hidden, scratch

    def step(i, carry):
      """Feeds node i - 1 with the hidden state that it was drawn from."""
      tokens, q, hidden, scratch = carry
      slots = Slots(
        tokens=jax.lax.dynamic_slice_in_dim(tokens, i - 1, 1, 1),
        positions=(cache.length - 1 + i)[:, None],
        mask=(column < i - 1) | (column == fed),
      )
      hidden, fresh = self._head.feed(
        params.draft, slots, hidden, visible, scratch
      )
      put = jax.lax.dynamic_update_slice_in_dim
      scratch = jax.tree.map(
        lambda all, new: put(all, new, i - 1, 2), scratch, fresh
      )
      return draw(i, hidden, (tokens, q, hidden, scratch))

    row_of_q = jnp.zeros((batch, size))
    q = Law(jnp.zeros((batch, size, vocab)), row_of_q, row_of_q)
    scratch = Fresh(self._head.init_cache(batch, fed).layers)
    hidden = state.hidden[:, None]
    carry = (jnp.zeros((batch, size), jnp.int32), q, hidden, scratch)
    carry = jax.lax.cond(
      longest > 0, lambda carry: draw(0, hidden, carry), lambda c: c, carry
    )
    tokens, q, _, _ = jax.lax.fori_loop(1, longest, step, carry)
    proposal = Proposal(
      nodes=trees.chain(tokens, budget),
      q=q,
      q_row=jnp.arange(size, dtype=jnp.int32)[None],
    )
    return proposal, state

  def _logits(
    self, params: Params, hidden: Float[Array, "B 1 d"]
  ) -> Float[Array, "B 1 V"]:
    """Over the target's vocabulary; -inf at what the draft cannot say."""
    logits = self._head.logits(params.draft, hidden)
    if params.draft.token_ids is None:
      return logits
    return to_target_vocabulary(
      logits, params.draft.token_ids, self.config.layer.vocab_size
    )
