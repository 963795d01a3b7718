"""A trainee of a table and a matrix, and texts for it."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from specjax.training.types import Batch, Frozen, Sum, Teacher

VOCAB, WIDTH, LENGTH = 8, 4, 6
FROZEN = Frozen(target={})
AXES = {"embed": ("vocab", "embed"), "head": ("vocab", "embed"), "b": (None,)}


@dataclasses.dataclass(frozen=True)
class Toy:
  """Logits after a token: its row of a table times a matrix."""

  taps = ()
  depth = 2

  def init(self, key, frozen):
    first, second = jax.random.split(key)
    shape = (VOCAB, WIDTH)
    return {
      "embed": jax.random.normal(first, shape),
      "head": jax.random.normal(second, shape),
      "b": jnp.zeros(VOCAB),
    }

  def _log_q(self, params, batch):
    logits = params["embed"][batch.tokens] @ params["head"].T
    logits = logits + params["b"].reshape(1, 1, -1)
    return jax.nn.log_softmax(logits.astype(jnp.float32))

  def loss(self, params, frozen, batch, key):
    log_q = self._log_q(params, batch)
    named = jnp.take_along_axis(log_q, batch.teacher.ids, -1)
    each = -(jnp.exp(batch.teacher.log_probs) * named).sum(-1)
    count = batch.mask.sum().astype(jnp.float32)
    total = jnp.where(batch.mask, each, 0.0).sum()
    return {"loss": Sum(total, count), "pairs": Sum(total[None], count[None])}

  def acceptance(self, params, frozen, batch, temperature):
    q = jnp.exp(self._log_q(params, batch))
    named = jnp.take_along_axis(q, batch.teacher.ids, -1)
    kept = jnp.minimum(named, jnp.exp(batch.teacher.log_probs)).sum(-1)
    total = jnp.where(batch.mask, kept, 0.0).sum()
    two = jnp.ones(2)
    return Sum(total * two, batch.mask.sum() * two)

  def drafter(self, num_speculative_tokens):
    raise NotImplementedError

  def draft_params(self, params, frozen):
    return params


def batch_of(seed, rows=8, spoilt=False):
  """Texts of a law that a table can learn; masks of uneven lengths."""
  rng = np.random.default_rng(seed)
  tokens = rng.integers(0, VOCAB, (rows, LENGTH)).astype(np.int32)
  law = np.where(
    (tokens[..., None] + 1) % VOCAB == np.arange(VOCAB), 0.65, 0.05
  )
  log_probs = np.log(law).astype(np.float32)
  if spoilt:
    log_probs[0] = np.nan
  mask = np.arange(LENGTH) < rng.integers(1, LENGTH, (rows, 1))
  ids = np.broadcast_to(np.arange(VOCAB, dtype=np.int32), law.shape)
  teacher = Teacher(
    ids=jnp.asarray(ids),
    log_probs=jnp.asarray(log_probs),
    log_tail=jnp.full(tokens.shape, -jnp.inf),
  )
  return Batch(jnp.asarray(tokens), jnp.asarray(mask), teacher, {})
