"""Judging the positions that are learnt, and making logits for no others."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from specjax import passes
from specjax.training.types import Batch, Teacher


def over_answers(
  judge: Callable[..., PyTree],
  hidden: Float[Array, "B L d"],
  batch: Batch,
  chunk: int,
) -> PyTree:
  """Sums of what `judge` finds over the texts, `chunk` positions at a time.

  Each text's positions that are learnt are moved to its front, and chunks
  without any are skipped, so that the work follows the longest answer:

      mask    . . . 1 1 1 1 .      1 1 1 1 | . . . .
              . 1 1 . . . . .  ->  1 1 . . | . . . .   second chunk skipped

  Args:
    judge: (hidden [B C d], teacher, the tokens that followed [B C],
      mask [B C]) -> a tree of sums.
    hidden: what the head reads, after every token.
    chunk: C; a last chunk is filled up.
  """
  length = hidden.shape[1]
  size = min(chunk, length)
  extra = -length % size
  # Stable, so that a text is read in order; padding stands last.
  order = jnp.argsort(~batch.mask, axis=1, stable=True)
  following = jnp.roll(batch.tokens, -1, 1)

  def apart(leaf):
    """[B L ...] -> [chunks B C ...], in that order."""
    index = order.reshape(*order.shape, *(1,) * (leaf.ndim - 2))
    leaf = jnp.take_along_axis(leaf, index, 1)
    pad = ((0, 0), (0, extra), *((0, 0),) * (leaf.ndim - 2))
    leaf = jnp.pad(leaf, pad)
    return leaf.reshape(leaf.shape[0], -1, size, *leaf.shape[2:]).swapaxes(0, 1)

  teacher, form = jax.tree.flatten(batch.teacher)
  given = (hidden, *teacher, following, batch.mask)

  def step(nothing, parts):
    x, *rest, tokens, mask = parts
    laws: Teacher = jax.tree.unflatten(form, rest)

    def run():
      return judge(x, laws, tokens, mask)

    return nothing, passes.confined(mask.any(), run)

  _, found = jax.lax.scan(step, None, [apart(leaf) for leaf in given])
  return jax.tree.map(lambda leaf: leaf.sum(0), found)
