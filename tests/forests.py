"""Forests of drafts for tests of rules: drawn, and judged in numpy.

Target and draft are tables [V, V], a law for each last token; every text begins
after token 0.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from specjax.types import Law, Nodes, Proposal, Streams


def law(rows) -> Law:
  """[B U V] probabilities as a Law."""
  weights = jnp.asarray(rows, jnp.float32)
  zero = jnp.zeros(weights.shape[:2])
  return Law(jnp.log(weights), jnp.full_like(zero, -jnp.inf), zero)


def streams(batch, seed=0, start=7) -> Streams:
  keys = jax.random.split(jax.random.key(seed), batch)
  return Streams(keys, jnp.full((batch,), start, jnp.int32))


class Judged(NamedTuple):
  """A verdict on the host."""

  slots: np.ndarray  # [B S]
  accepted: np.ndarray  # [B]
  next_token: np.ndarray  # [B]


def judge(rule, proposal: Proposal, p: Law, keys: Streams) -> Judged:
  """The verdict of the compiled rule."""
  verdict = _judge(rule, proposal, p, keys)
  fields = (verdict.slots, verdict.accepted, verdict.next_token)
  return Judged(*(np.asarray(x) for x in fields))


def same(ours: Judged, theirs: Judged, rows=slice(None)) -> bool:
  """Whether two verdicts are equal, or those of some rows."""
  pairs = zip(ours, theirs, strict=True)
  return all((a[rows] == b[rows]).all() for a, b in pairs)


@jax.jit(static_argnames="rule")
def _judge(rule, proposal, p, keys):
  return rule(proposal, p, keys)


@dataclasses.dataclass(frozen=True)
class Forest:
  """Rows of drafts in numpy: [B N] parents and tokens, [B N V] laws of q."""

  parents: np.ndarray
  tokens: np.ndarray
  count: np.ndarray
  p: np.ndarray  # [B N+1 V]
  q: np.ndarray
  siblings: str

  def proposal(self, depth: int, riders: int = 0) -> Proposal:
    """With riders, all there, whose tokens are likely ones."""
    batch, size = self.tokens.shape
    extra = ((0, 0), (0, riders))
    nodes = Nodes(
      tokens=jnp.asarray(np.pad(self.tokens, extra, constant_values=1)),
      parents=jnp.asarray(np.pad(self.parents, extra)),
      count=jnp.asarray(self.count, jnp.int32),
      rider_count=jnp.full((batch,), riders, jnp.int32),
      num_judged=size,
      max_depth=depth,
    )
    if self.siblings == "point":
      return Proposal(nodes, siblings="point")
    q_row = jnp.arange(size, dtype=jnp.int32)[None]
    siblings: str = self.siblings
    return Proposal(nodes, law(self.q), q_row, siblings=siblings)

  def target(self, riders: int = 0) -> Law:
    """p at every slot, riders' too."""
    extra = ((0, 0), (0, riders), (0, 0))
    return law(np.pad(self.p, extra, mode="edge"))


def draw(rng, parents, count, p_table, q_table, siblings) -> Forest:
  """Drafts as a drafter that declares `siblings` draws them.

  Args:
    parents: [B N].
    p_table, q_table: [B V V], those of each row.
    siblings: "point" takes the likeliest tokens of q in turn.
  """
  batch, size = parents.shape
  row = np.arange(batch)
  said = np.zeros((batch, size + 1), np.int32)  # by slot
  laws = np.zeros((batch, size, q_table.shape[-1]))
  for node in range(size):
    above = parents[:, node]
    laws[:, node] = q_table[row, said[row, above]]
    rank = np.zeros((batch,), int)
    weights = laws[:, node].copy()
    for earlier in range(node):
      sibling = parents[:, earlier] == above
      rank += sibling
      if siblings == "without_replacement":
        weights[row[sibling], said[sibling, earlier + 1]] = 0
    if siblings == "point":
      said[:, node + 1] = np.argsort(-weights, 1, kind="stable")[row, rank]
      continue
    spent = weights.sum(1) == 0  # such a token may be any
    weights[spent] = 1
    sums = weights.cumsum(1)
    aim = rng.random((batch, 1)) * sums[:, -1:]
    said[:, node + 1] = (sums <= aim).sum(1)
  return Forest(
    parents=parents,
    tokens=said[:, 1:],
    count=count,
    p=p_table[row[:, None], said],
    q=laws,
    siblings=siblings,
  )


def outcomes(forest: Forest, row: int):
  """All ends of the walk of a row, as SpecInfer's and RSD's papers tell it.

  Returns:
    A list of (tests, slot, law of the next token), the tests made on the way as
    (node, chance to keep it, whether it was kept).
  """
  parents, tokens = forest.parents[row], forest.tokens[row]
  p, count, one = forest.p[row], forest.count[row], np.eye(forest.p.shape[-1])
  found = []

  def visit(node, at, left, refused, tests):
    while node < count and parents[node] != at:
      node += 1
    if node >= count:
      found.append((tests, at, left))
      return
    token = tokens[node]
    drawn = forest.q[row, node].copy()
    if forest.siblings == "without_replacement":
      drawn[refused] = 0
    if forest.siblings == "point" or not drawn.any():
      drawn = one[token]
    drawn = drawn / drawn.sum()
    chance = min(1.0, left[token] / drawn[token])
    if chance > 0:
      kept = [*tests, (node, chance, True)]
      visit(node + 1, node + 1, p[node + 1], [], kept)
    if chance < 1:
      rest = np.maximum(left - drawn, 0)
      gone = [*refused, token]
      tests = [*tests, (node, chance, False)]
      visit(node + 1, at, rest / rest.sum(), gone, tests)

  visit(0, 0, p[0], [], [])
  return found


def path(parents, slot) -> list[int]:
  """Slots from slot 0 down to one."""
  return [0] if slot == 0 else [*path(parents, parents[slot - 1]), int(slot)]


def texts(rng, forest: Forest, verdict, p_table, length: int) -> np.ndarray:
  """What each row emits, told on from p up to `length` tokens: [B length]."""
  batch = len(forest.tokens)
  row = np.arange(batch)
  said = np.zeros((batch, length + 1), int)
  slot_tokens = np.pad(forest.tokens, ((0, 0), (1, 0)))
  for i in range(length):
    after = verdict.slots[:, min(i + 1, verdict.slots.shape[1] - 1)]
    sums = p_table[row, said[:, i]].cumsum(1)
    drawn = (sums <= rng.random((batch, 1)) * sums[:, -1:]).sum(1)
    token = np.where(i < verdict.accepted, slot_tokens[row, after], drawn)
    token = np.where(i == verdict.accepted, verdict.next_token, token)
    said[:, i + 1] = token
  return said[:, 1:]


def count_texts(said: np.ndarray, vocab: int) -> np.ndarray:
  """How often each text came up: [V] a token."""
  counts = np.zeros((vocab,) * said.shape[1], np.int64)
  np.add.at(counts, tuple(said.T), 1)
  return counts


def joint(p_table: np.ndarray, length: int) -> np.ndarray:
  """The law of the first tokens: [V] a token."""
  whole = p_table[0]
  for _ in range(length - 1):
    whole = whole[..., None] * p_table
  return whole
