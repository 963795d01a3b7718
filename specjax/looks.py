"""What a reader of one round wants to see: p, q and alternatives."""

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from specjax import filters, sampling
from specjax.types import Law, Look, Proposal, Sampling, Verdict

_TOP = 5  # alternatives at a slot


def empty(batch: int, nodes: int, burst: int, vocab: int) -> Look:
  """The look of no round: N nodes, S kept slots."""

  def whole(*shape: int):
    return jnp.zeros((batch, *shape), jnp.int32)

  def real(*shape: int):
    return jnp.zeros((batch, *shape))

  top = min(_TOP, vocab)
  return Look(
    tokens=whole(nodes),
    parents=whole(nodes),
    count=whole(),
    p=real(nodes),
    q=real(nodes),
    slots=whole(burst),
    accepted=whole(),
    p_emitted=real(burst),
    top=whole(1 + nodes, top),
    p_top=real(1 + nodes, top),
  )


def readable(logits: Float[Array, "B U V"], settings: Sampling) -> Law:
  """The law that was judged by; at temperature 1 where a row is greedy.

  A greedy law is a point mass, which tells a reader nothing.
  """
  greedy = settings.temperature == 0.0
  settings = dataclasses.replace(
    settings,
    temperature=jnp.where(greedy, 1.0, settings.temperature),
    uses=settings.uses | {"temperature"},
  )
  return sampling.make_law(logits, settings)


def look(
  proposal: Proposal, p: Law, verdict: Verdict, emitted: Int[Array, "B S"]
) -> Look:
  """Looks at a round at the width that ran; riders are left out.

  Args:
    p: see `readable`.
  """
  nodes, q = proposal.nodes, proposal.q
  size = nodes.num_judged
  tokens = nodes.tokens[:, :size]
  parents = jnp.broadcast_to(nodes.parents[:, :size], tokens.shape)
  drawn = jnp.full(tokens.shape, jnp.nan)
  if q is not None and proposal.q_row is not None:
    rows = jnp.broadcast_to(proposal.q_row[:, :size], tokens.shape)
    drawn = sampling.prob(q, rows, tokens)
  law = sampling.dense(p)[:, : size + 1]
  p_top, top = filters.largest(law, min(_TOP, law.shape[-1]))
  return Look(
    tokens=tokens,
    parents=parents,
    count=jnp.minimum(nodes.count, size),
    p=sampling.prob(p, parents, tokens),
    q=drawn,
    slots=verdict.slots,
    accepted=verdict.accepted,
    p_emitted=sampling.prob(p, verdict.slots, emitted),
    top=top,
    p_top=p_top,
  )


def widen(narrow: Look, nodes: int) -> Look:
  """The same with room for `nodes`, so that every width has one form."""
  extra = nodes - narrow.tokens.shape[1]

  def pad(x):
    return jnp.pad(x, ((0, 0), (0, extra)) + ((0, 0),) * (x.ndim - 2))

  fields = ("tokens", "parents", "p", "q", "top", "p_top")
  return dataclasses.replace(
    narrow, **{name: pad(getattr(narrow, name)) for name in fields}
  )
