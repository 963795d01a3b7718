"""Drafts that are counts: unigram and bigram laws of a text.

Leviathan et al. 2023 (arXiv 2211.17192, section 4.2) use such drafts, whose
cost is next to nothing. A law is a table, a row a last token; a unigram's rows
are all the same.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from specjax import passes, sampling, trees
from specjax.drafters.chain import Chain
from specjax.types import Law, Params, Proposal, Rows, Streams


def unigram(text: Int[np.ndarray, "N"], vocab_size: int) -> Float[Array, "V V"]:
  """Log of how often each token occurs, -inf where it never does."""
  counts = np.bincount(text, minlength=vocab_size)
  return _log(np.broadcast_to(counts, (vocab_size, vocab_size)))


def bigram(text: Int[np.ndarray, "N"], vocab_size: int) -> Float[Array, "V V"]:
  """Log of how often each token follows another.

  After a token that nothing follows stands the unigram law.
  """
  pairs = text[:-1].astype(np.int64) * vocab_size + text[1:]
  counts = np.bincount(pairs, minlength=vocab_size**2)
  counts = counts.reshape(vocab_size, vocab_size)
  alone = np.bincount(text, minlength=vocab_size)[None]
  return _log(np.where(counts.any(1, keepdims=True), counts, alone))


def _log(counts: Int[np.ndarray, "V V"]) -> Float[Array, "V V"]:
  with np.errstate(divide="ignore"):
    return jnp.asarray(np.log(counts), jnp.float32)


@dataclasses.dataclass(frozen=True)
class CountDraft(Chain):
  """Drafts from the table of logits `Params.draft` [V V]."""

  num_speculative_tokens: int = 3

  def propose(
    self,
    params: Params,
    state,
    rows: Rows,
    budget: Int[Array, "B"],
    keys: Streams,
  ):
    table, size = params.draft, self.num_speculative_tokens
    batch = budget.shape[0]
    node = jnp.broadcast_to(jnp.arange(size, dtype=jnp.int32), (batch, size))
    uniform = sampling.round_uniform(keys, sampling.Purpose.DRAFT, node)

    def step(last, number):
      law = sampling.make_law(table[last], rows.sampling)
      token = sampling.draw(law, number[:, None])
      parts = token, law.scaled, law.cutoff, law.log_norm
      return token, tuple(part[:, 0] for part in parts)

    last = passes.gather_tokens(rows.tokens, rows.length - 1, 1)
    _, parts = jax.lax.scan(step, last, uniform.T)
    tokens, *law = (jnp.swapaxes(part, 0, 1) for part in parts)
    proposal = Proposal(
      nodes=trees.chain(tokens, budget),
      q=Law(*law),
      q_row=jnp.arange(size, dtype=jnp.int32)[None],
    )
    return proposal, state
