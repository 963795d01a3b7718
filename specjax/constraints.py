"""What ends an output, and what bends the law along a path."""

import dataclasses

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Float, Int

from specjax.types import EOS, RUNNING, STOP, Slots


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

  def init(self, tables: StopTables | None, batch: int) -> Int[Array, "B"]:
    del tables
    return jnp.zeros((batch,), jnp.int32)

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
