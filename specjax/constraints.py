"""What ends an output, and what bends the law along a path.

A constraint keeps a state a row, made of committed tokens only. Inside a round
it is extended along each node's path, so that a drafted token is judged by the
very law that plain decoding would have used there.
"""

import dataclasses

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Float, Int, PyTree

from specjax.types import EOS, RUNNING, STOP, Constraint, Slots


@struct.dataclass
class StopTables:
  """transitions[state, token]: the next state of the stop automaton.

  State 0 is the start; the last state is reached when a stop string has just
  been completed inside the token, whatever follows it there.
  """

  transitions: Int[Array, "states V"] | None = None


@dataclasses.dataclass(frozen=True)
class Stops:
  """Ends a row at an end-of-text token or at a stop string.

  The token that ends a row is emitted, what follows it in the burst is not.
  A stop string is an automaton over tokens, one step for each emitted token, so
  that it is found inside a burst and across two of them. The law is left alone.
  """

  eos_ids: tuple[int, ...] = ()

  def init(
    self, tables: StopTables | None, tokens, prompt_length: Int[Array, "B"]
  ) -> Int[Array, "B"]:
    del tables, tokens
    return jnp.zeros_like(prompt_length)

  def apply(
    self, tables, state, slots: Slots, logits: Float[Array, "B W V"]
  ) -> Float[Array, "B W V"]:
    del tables, state, slots
    return logits

  def advance(
    self,
    tables: StopTables | None,
    state: Int[Array, "B"],
    emitted: Int[Array, "B S"],
    count: Int[Array, "B"],
  ) -> tuple[Int[Array, "B"], Int[Array, "B"], Int[Array, "B"]]:
    """(automaton state, count cut at the first stop, finish code)."""
    table = None if tables is None else tables.transitions

    def step(carry, inputs):
      state, finish, kept = carry
      token, index = inputs
      runs = (finish == RUNNING) & (index < count)
      code = jnp.where(self._is_eos(token), EOS, RUNNING)
      if table is not None:
        after = table[state, token]
        hit = after == table.shape[0] - 1
        code = jnp.where((code == RUNNING) & hit, STOP, code)
        state = jnp.where(runs, after, state)
      finish = jnp.where(runs, code, finish)
      return (state, finish, kept + runs), None

    size = emitted.shape[1]
    start = (state, jnp.full_like(count, RUNNING), jnp.zeros_like(count))
    (state, finish, kept), _ = jax.lax.scan(
      step, start, (emitted.T, jnp.arange(size, dtype=jnp.int32))
    )
    return state, kept, finish

  def _is_eos(self, token: Int[Array, "B"]):
    ids = jnp.asarray(self.eos_ids, jnp.int32)[None]
    return (token[:, None] == ids).any(-1)


@dataclasses.dataclass(frozen=True)
class MinNewTokens:
  """No end of text before `count` tokens; counted in tokens, not in rounds."""

  count: int
  eos_ids: tuple[int, ...]

  def init(
    self, tables, tokens, prompt_length: Int[Array, "B"]
  ) -> Int[Array, "B"]:
    del tables, tokens
    return jnp.zeros_like(prompt_length)

  def apply(
    self,
    tables,
    state: Int[Array, "B"],
    slots: Slots,
    logits: Float[Array, "B W V"],
  ) -> Float[Array, "B W V"]:
    """The token after a slot is number state + depth of the new ones."""
    depth = slots.mask.sum(-1, dtype=jnp.int32) - 1
    early = state[:, None] + depth < self.count  # [B W]
    ends = jnp.zeros(logits.shape[-1], bool)
    ends = ends.at[jnp.asarray(self.eos_ids, jnp.int32)].set(True)
    barred = early[..., None] & ends[None, None]
    return jnp.where(barred, -jnp.inf, logits)

  def advance(self, tables, state, emitted, count):
    return state + count, count, jnp.full_like(count, RUNNING)


@dataclasses.dataclass(frozen=True)
class Penalties:
  """Lowers logits of new tokens already used, as OpenAI and vLLM define it.

  logit - frequency * n - presence * (n > 0), where n counts the token among the
  new tokens of the text, those of the node's own path included.
  """

  vocab_size: int
  presence: float = 0.0
  frequency: float = 0.0

  def init(
    self, tables, tokens, prompt_length: Int[Array, "B"]
  ) -> Int[Array, "B V"]:
    del tables, tokens
    return jnp.zeros((prompt_length.shape[0], self.vocab_size), jnp.int32)

  def apply(
    self,
    tables,
    state: Int[Array, "B V"],
    slots: Slots,
    logits: Float[Array, "B W V"],
  ) -> Float[Array, "B W V"]:
    # Slot 0 is committed: where it is new, the state counts it already.
    path = slots.mask.at[..., 0].set(False).astype(jnp.int32)
    path = jnp.broadcast_to(path, (state.shape[0], *path.shape[1:]))

    def count(state, path, tokens):
      rows = jnp.broadcast_to(state, (path.shape[0], state.shape[0]))
      return rows.at[:, tokens].add(path)

    used = jax.vmap(count)(state, path, slots.tokens)  # [B W V]
    return logits - self.frequency * used - self.presence * (used > 0)

  def advance(self, tables, state, emitted, count):
    kept = jnp.arange(emitted.shape[1])[None] < count[:, None]
    add = jax.vmap(lambda row, token, n: row.at[token].add(n))
    state = add(state, emitted, kept.astype(jnp.int32))
    return state, count, jnp.full_like(count, RUNNING)


@dataclasses.dataclass(frozen=True)
class Together:
  """Several constraints; tables and states are tuples, one a part.

  Each part sees the burst as the parts before it cut it. The finish code is
  that of the part that cut at the earliest token, of several the last's.
  """

  parts: tuple[Constraint, ...]

  def init(
    self,
    tables: tuple[PyTree, ...] | None,
    tokens: Int[Array, "B T"],
    prompt_length: Int[Array, "B"],
  ) -> PyTree:
    pairs = zip(self.parts, self._tables(tables), strict=True)
    return tuple(
      part.init(table, tokens, prompt_length) for part, table in pairs
    )

  def apply(self, tables, state, slots: Slots, logits):
    rest = zip(self.parts, self._tables(tables), state, strict=True)
    for part, table, mine in rest:
      logits = part.apply(table, mine, slots, logits)
    return logits

  def advance(self, tables, state, emitted, count):
    states, finish = [], jnp.full_like(count, RUNNING)
    rest = zip(self.parts, self._tables(tables), state, strict=True)
    for part, table, mine in rest:
      mine, count, code = part.advance(table, mine, emitted, count)
      finish = jnp.where(code == RUNNING, finish, code)
      states.append(mine)
    return tuple(states), count, finish

  def _tables(self, tables):
    return (None,) * len(self.parts) if tables is None else tables
