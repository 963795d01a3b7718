"""Tokens of a tree of drafts, and the best tree of a size.

Sequoia (Chen et al. 2024, arXiv 2402.12374), section 3.1: under positional
acceptance the k-th child of a kept node is the kept one with probability p_k,
wherever the node stands, so that p sums to at most 1. Nodes are numbered as in
specjax.trees: slot 0 is the root, the last committed token, and node i is slot
i + 1; a parent stands before its children.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int, Real

from specjax.theory.arrays import as_floats, powers


def rank_acceptance(
  conditional: Real[ArrayLike, "*s R"],
) -> Float[Array, "*s R"]:
  """p_k from the acceptance of the k-th child after k - 1 refused ones.

  c_k (1 - c_1) ... (1 - c_{k-1}).
  """
  (rates,) = as_floats(conditional)
  ones = jnp.ones_like(rates[..., :1])
  missed = jnp.cumprod(1 - rates, -1)
  return rates * jnp.concatenate([ones, missed[..., :-1]], -1)


@jax.jit
def expected_tokens(
  parents: Int[ArrayLike, "N"],
  acceptance: Real[ArrayLike, "*s N"],
) -> Float[Array, "*s"]:
  """1 + the sum over nodes of the product of acceptances on the way there.

  The one is the extra token of the pass.

  Args:
    parents: slot of each node's parent, smaller than the node's own.
    acceptance: chance that a node is the kept child, given its kept parent.
  """
  (chance,) = as_floats(acceptance)
  nodes = chance.shape[-1]
  if not nodes:
    return jnp.ones_like(chance.sum(-1))
  # Slots lead, so that a node's value is one row.
  chance = jnp.moveaxis(chance, -1, 0)
  values = jnp.concatenate([jnp.ones_like(chance[:1]), jnp.zeros_like(chance)])
  parents = jnp.asarray(parents)

  def visit(node, values):
    return values.at[node + 1].set(values[parents[node]] * chance[node])

  return jax.lax.fori_loop(0, nodes, visit, values).sum(0)


@dataclasses.dataclass(frozen=True)
class Tree:
  """A static tree: parents (slots, node i is slot i + 1) and ranks from 0."""

  parents: Int[np.ndarray, "N"]
  ranks: Int[np.ndarray, "N"]


def _grow(p, below, size):
  """Best values with exactly 0..R children, and the last child's size.

  Args:
    p: acceptance by rank, R of them.
    below: the best value of a child's subtree of at most 0..size nodes.
  """
  count = jnp.arange(size + 1)
  left = count[:, None] - count[None]  # [n m] nodes left when a child takes m
  allowed = (count[None] >= 1) & (left >= 1)

  def add_child(value, chance):
    rest = value[jnp.maximum(left, 0)]
    tried = jnp.where(allowed & (rest > 0), rest + chance * below[None], -1)
    return tried.max(1), (tried.max(1), tried.argmax(1))

  alone = jnp.where(count >= 1, 1, -1).astype(p.dtype)
  _, (values, taken) = jax.lax.scan(add_child, alone, p)
  return jnp.concatenate([alone[None], values]), taken


@functools.partial(jax.jit, static_argnames=("size", "depth"))
def _search(p, size, depth):
  """Values, child counts and last children's sizes, by depth limit and size."""

  def deepen(below, _):
    values, taken = _grow(p, below, size)
    best = jnp.maximum(values.max(0), 0)
    return best, (best, values.argmax(0), taken)

  alone = (jnp.arange(size + 1) >= 1).astype(p.dtype)
  _, (best, children, taken) = jax.lax.scan(deepen, alone, length=depth)
  return jnp.concatenate([alone[None], best]), children, taken


def most_tokens(
  acceptance: Real[ArrayLike, "R"], num_slots: int, max_depth: int
) -> Float[Array, "{max_depth}+1 {num_slots}+1"]:
  """Most expected tokens of a pass by depth limit and number of slots.

  The dynamic programme of Sequoia, section 3.1: entry [d, n] is
  the best tree of at most n slots, the root among them, and of depth at most d
  (0 at n = 0). Where children of one node are refused in turn, `acceptance` is
  that of `rank_acceptance`.

  Args:
    acceptance: p_k of the first R children.
    max_depth: num_slots - 1 is no limit.
  """
  (p,) = as_floats(acceptance)
  return _search(p, num_slots, max_depth)[0]


def best_tree(
  acceptance: Real[ArrayLike, "R"], num_slots: int, max_depth: int | None = None
) -> Tree:
  """The tree that `most_tokens` counts, built on the host, nodes by depth.

  Args:
    num_slots: at most this many, the root among them.
    max_depth: None is no limit.
  """
  (p,) = as_floats(acceptance)
  depth = num_slots - 1 if max_depth is None else max_depth
  _, children, taken = (np.asarray(x) for x in _search(p, num_slots, depth))
  parents, ranks = [], []
  level = [(0, num_slots)]
  for left in range(depth, 0, -1):  # depth still allowed below this level
    following = []
    for slot, size in level:
      sizes = []
      for rank in range(int(children[left - 1, size]), 0, -1):
        sizes.append(int(taken[left - 1, rank - 1, size]))
        size -= sizes[-1]
      for rank, child in enumerate(reversed(sizes)):
        parents.append(slot)
        ranks.append(rank)
        following.append((len(parents), child))
    level = following
  return Tree(np.asarray(parents, np.int32), np.asarray(ranks, np.int32))


def best_size(
  tokens: Real[ArrayLike, "D N"],
  draft_cost: Real[ArrayLike, ""],
  verify_cost: Real[ArrayLike, "N"],
) -> tuple[Int[Array, ""], Int[Array, ""], Float[Array, ""]]:
  """Depth, slots and speedup of the tree that suits the hardware.

  Maximises F(n, d) / (t(n) + d c) (Sequoia, section 3.3).

  Args:
    tokens: of `most_tokens`, by depth and slots.
    draft_cost: c, of one level of drafting over a one-token target pass.
    verify_cost: t(n), of a pass of n slots over a one-token pass, at least 1.
  """
  tokens, draft, verify = as_floats(tokens, draft_cost, verify_cost)
  levels = jnp.arange(tokens.shape[0], dtype=tokens.dtype)
  factors = tokens / (verify[None] + levels[:, None] * draft)
  best = jnp.argmax(factors)
  depth, slots = jnp.unravel_index(best, factors.shape)
  return (
    depth.astype(jnp.int32),
    slots.astype(jnp.int32),
    factors.max(),
  )


def even_tree_tokens(
  level_acceptance: Real[ArrayLike, "*s"], max_depth: int
) -> Float[Array, "*s {max_depth}+1"]:
  """Tokens of a full tree by depth, where some child of a kept node is kept.

  1 + a + ... + a^d with a the acceptance of one node's children together, as
  `siblings` gives it: eq. 1 of Leviathan et al. with a for alpha.
  """
  (chance,) = as_floats(level_acceptance)
  return jnp.cumsum(powers(chance, max_depth + 1), -1)
