"""Drafters that drive the loop where no method would: scripted refusals."""

import dataclasses

import jax.numpy as jnp

from specjax import passes, trees
from specjax.sampling import Purpose, round_uniform
from specjax.types import Feedback, Nodes, Params, Proposal, Rows, Streams


@dataclasses.dataclass(frozen=True)
class Recital:
  """Proposes a text it was given, with one wrong token at an offset in turn.

  `Params.draft` is {"text": [B T]}, what the rows will say; round r of a row
  goes wrong at node r % (budget + 1), none where that is the budget itself.
  """

  max_depth: int

  siblings = "chain"
  num_riders = 0
  taps = ()
  reads_logits = False

  @property
  def num_nodes(self) -> int:
    return self.max_depth

  @property
  def widths(self) -> tuple[int, ...]:
    return (1, 1 + self.max_depth)

  def init(self, params: Params, batch: int, capacity: int):
    return ()

  def observe(self, params: Params, state, seen: Feedback):
    return state

  def propose(self, params: Params, state, rows: Rows, budget, keys: Streams):
    text = jnp.asarray(params.draft["text"])
    tokens = passes.gather_tokens(text, rows.length, self.max_depth)
    wrong_at = (rows.rounds % (budget + 1))[:, None]
    wrong = jnp.arange(self.max_depth)[None] == wrong_at
    tokens = jnp.where(wrong, jnp.where(tokens > 0, tokens - 1, 1), tokens)
    return Proposal(trees.chain(tokens, budget)), state


def _below(keys: Streams, node, bound):
  """A whole number from 0 up to `bound`, exclusive, a row."""
  batch = keys.round_start.shape[0]
  column = jnp.full((batch, 1), node, jnp.int32)
  u = round_uniform(keys, Purpose.DRAFT, column)[:, 0]
  return jnp.minimum((u * bound).astype(jnp.int32), bound - 1)


@dataclasses.dataclass(frozen=True)
class RandomTree:
  """Proposes another random forest for each row and round.

  Topology and count are random, equal siblings occur, and half of the tokens
  are those of what the rows will say, `Params.draft` = {"text": [B T]}.
  """

  num_nodes: int
  max_depth: int
  vocab_size: int

  siblings = "point"
  num_riders = 0
  taps = ()
  reads_logits = False

  @property
  def widths(self) -> tuple[int, ...]:
    return (1, 1 + self.num_nodes // 2, 1 + self.num_nodes)

  def init(self, params: Params, batch: int, capacity: int):
    return ()

  def observe(self, params: Params, state, seen: Feedback):
    return state

  def propose(self, params: Params, state, rows: Rows, budget, keys: Streams):
    text = jnp.asarray(params.draft["text"])
    batch = budget.shape[0]
    depth = jnp.zeros((batch, 1), jnp.int32)  # of every slot so far
    tokens, parents = [], []
    for i in range(self.num_nodes):
      parent = _below(keys, 4 * i, i + 1)[:, None]
      above = jnp.take_along_axis(depth, parent, 1)
      deep = above >= jnp.minimum(budget, self.max_depth)[:, None]
      parent, above = jnp.where(deep, 0, parent), jnp.where(deep, 0, above)
      right = passes.gather_tokens(text, rows.length + above[:, 0], 1)[:, 0]
      other = _below(keys, 4 * i + 1, self.vocab_size)
      is_right = _below(keys, 4 * i + 2, 2) == 1
      tokens.append(jnp.where(is_right, right, other))
      parents.append(parent[:, 0])
      depth = jnp.concatenate([depth, above + 1], 1)
    count = _below(keys, 4 * self.num_nodes, self.num_nodes + 1)
    nodes = Nodes(
      tokens=jnp.stack(tokens, 1),
      parents=jnp.stack(parents, 1),
      count=jnp.where(budget > 0, count, 0),
      rider_count=jnp.zeros_like(count),
      num_judged=self.num_nodes,
      max_depth=self.max_depth,
    )
    return Proposal(nodes), state


@dataclasses.dataclass(frozen=True)
class Riders:
  """A recited chain with riders, for a table model of order 2.

  Riders hang from random slots and carry the very tokens that the rows will
  say. The state counts, over the live nodes of all rounds, the logits rows that
  it was shown ("seen") and those that are not the table's ("wrong").
  """

  max_depth: int
  num_riders: int

  siblings = "chain"
  taps = ()
  reads_logits = True

  @property
  def num_nodes(self) -> int:
    return self.max_depth

  @property
  def widths(self) -> tuple[int, ...]:
    return (1, 1 + self.num_nodes, 1 + self.num_nodes + self.num_riders)

  def init(self, params: Params, batch: int, capacity: int):
    zero = jnp.zeros((batch,), jnp.int32)
    return {"seen": zero, "wrong": zero}

  def observe(self, params: Params, state, seen: Feedback):
    if seen.logits is None or seen.nodes is None:
      return state
    nodes = seen.nodes
    fed = jnp.concatenate([seen.inputs[:, :1], nodes.tokens], 1)
    parents = jnp.broadcast_to(nodes.parents, nodes.tokens.shape)
    before = jnp.take_along_axis(fed, parents, 1)
    wanted = params.target["table"][before, nodes.tokens]
    ran = trees.live(nodes) & (seen.count > 0)[:, None]
    wrong = ran & (wanted != seen.logits[:, 1:]).any(-1)
    return {
      "seen": state["seen"] + ran.sum(1, dtype=jnp.int32),
      "wrong": state["wrong"] + wrong.sum(1, dtype=jnp.int32),
    }

  def propose(self, params: Params, state, rows: Rows, budget, keys: Streams):
    recital = Recital(self.max_depth)
    proposal, _ = recital.propose(params, (), rows, budget, keys)
    text = jnp.asarray(params.draft["text"])
    judged = proposal.nodes
    tokens, parents = [judged.tokens], [judged.parents]
    parents[0] = jnp.broadcast_to(judged.parents, judged.tokens.shape)
    for i in range(self.num_riders):
      # From a slot that is live: the last token, a judged node or a rider.
      slot = _below(keys, 2 * i, 1 + budget + i)
      past = jnp.maximum(slot - budget, 0)
      slot = jnp.where(past > 0, self.num_nodes + past, slot)
      depth = jnp.minimum(slot, self.max_depth)
      tokens.append(passes.gather_tokens(text, rows.length + depth, 1))
      parents.append(slot[:, None])
    riding = _below(keys, 2 * self.num_riders, self.num_riders + 1)
    nodes = Nodes(
      tokens=jnp.concatenate(tokens, 1),
      parents=jnp.concatenate(parents, 1),
      count=judged.count,
      rider_count=jnp.where(budget > 0, riding, 0),
      num_judged=self.num_nodes,
      max_depth=self.max_depth,
    )
    return Proposal(nodes), state
