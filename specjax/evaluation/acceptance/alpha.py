"""Alpha by teacher forcing: what a drafter's one guess is worth at each token.

At every position of a given text the drafter proposes one token and the target
states its law; then both read the token that stands there. Leviathan et al.
2023 (arXiv 2211.17192) measure alpha so, on texts that the target generated.
"""

import dataclasses
import statistics
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Bool, Float, Int

from specjax import passes, sampling, trees
from specjax.models import cache as kv_cache
from specjax.passes import Engine
from specjax.theory import acceptance as theory
from specjax.types import Feedback, Params, Proposal, Rows, Slots, Streams


@struct.dataclass
class Positions:
  """What was seen at each position of the texts; false or 0 where none was.

  Attributes:
    seen: whether the text has a token there that was forced.
    proposed: whether the drafter proposed.
    rejection: sum of min(p, q), the chance that rejection keeps the proposal;
      p(x) where x is a point mass.
    exact_match: sum of p q, the chance that the target's own sample is it.
    agrees: the target's likeliest token is the draft's, or the one proposed.
    entropy: of p, in nats.
    kept: nodes of the proposal that the text goes on with, one after another.
  """

  seen: Bool[Array, "B T"]
  proposed: Bool[Array, "B T"]
  rejection: Float[Array, "B T"]
  exact_match: Float[Array, "B T"]
  agrees: Bool[Array, "B T"]
  entropy: Float[Array, "B T"]
  kept: Int[Array, "B T"]


@dataclasses.dataclass(frozen=True)
class Alpha:
  """Means over positions; None where nothing was proposed.

  Attributes:
    positions: tokens forced.
    share_proposed: of them, where the drafter proposed.
    alpha: mean of the chance that rejection keeps a proposal, over the
      positions with one.
    exact_match: the same of the exact-match rule.
    greedy_agreement: share of the proposals whose likeliest token is p's.
    entropy_nats: of p, over all positions.
    by_text: alpha of each text.
  """

  positions: int
  share_proposed: float
  alpha: float | None
  exact_match: float | None
  greedy_agreement: float | None
  entropy_nats: float
  by_text: tuple[float | None, ...]

  def to_json(self) -> dict[str, Any]:
    return dataclasses.asdict(self)


def summarize(*parts: Positions) -> Alpha:
  """Means of what was seen, all texts pooled by position.

  Args:
    *parts: of one or more calls of `force`, on buffers of one size.

  Raises:
    ValueError: no position was seen.
  """
  host = {
    field.name: np.concatenate([getattr(part, field.name) for part in parts])
    for field in dataclasses.fields(Positions)
  }
  seen, where = host["seen"], host["proposed"]
  total = int(seen.sum())
  if not total:
    raise ValueError("there is no text to measure acceptance on")

  def mean(name: str):
    values = host[name]
    return float(values[where].mean()) if where.any() else None

  return Alpha(
    positions=total,
    share_proposed=float(where.sum()) / total,
    alpha=mean("rejection"),
    exact_match=mean("exact_match"),
    greedy_agreement=mean("agrees"),
    entropy_nats=float(host["entropy"][seen].mean()),
    by_text=tuple(
      statistics.fmean(values[there].tolist()) if there.any() else None
      for values, there in zip(host["rejection"], where, strict=True)
    ),
  )


@jax.jit(static_argnames=("engine", "depth"))
def force(
  engine: Engine,
  params: Params,
  rows: Rows,
  until: Int[Array, "B"],
  depth: int = 1,
) -> Positions:
  """Walks the texts from where the rows stand, one position a step.

  One loop on the device. The first node of a proposal counts, drawn with the
  keys of the round that would begin there; laws are `rows.sampling`'s, before
  constraints.

  Args:
    rows: prefilled, as decoding would start from them; `tokens` hold the whole
      texts.
    until: tokens of each text, at most two less than the buffers hold.
    depth: asked of the drafter; more than 1 only matters to `kept`.
  """
  size = rows.tokens.shape[1]
  rows = dataclasses.replace(
    rows,
    active=rows.length < until,
    limit=jnp.full_like(until, size),
    max_draft=jnp.full_like(until, depth),
  )
  zero = jnp.zeros(rows.tokens.shape, jnp.float32)
  no = jnp.zeros(rows.tokens.shape, bool)
  start = (no, no, zero, zero, no, zero, zero.astype(jnp.int32))

  def step(carry):
    rows, seen = carry
    at, ran = rows.length, rows.active.astype(jnp.int32)
    found, rows = _step(engine, params, rows, until)

    def put(buffer, value):
      return passes.write_tokens(buffer, value[:, None], at, ran)

    return rows, jax.tree.map(put, seen, found)

  end = jax.lax.while_loop(lambda c: c[0].active.any(), step, (rows, start))
  return Positions(*end[1])


def _step(engine: Engine, params: Params, rows: Rows, until):
  """(what one position of each row shows, [B] each; the rows one token on)."""
  keys = Streams(rows.key, rows.length)
  proposal, draft = passes.propose(engine, params, rows, keys)
  last = passes.gather_tokens(rows.tokens, rows.length - 1, 1)
  run = engine.model(
    params.target,
    Slots(last, (rows.length - 1)[:, None], jnp.ones((1, 1, 1), bool)),
    kv_cache.hide_done(rows.cache, rows.active),
    taps=engine.drafter.taps,
  )
  found = _measure(rows, proposal, run.logits, until)

  count = rows.active.astype(jnp.int32)
  burst = engine.burst
  zero = jnp.zeros((count.shape[0], burst), jnp.int32)
  following = passes.gather_tokens(rows.tokens, rows.length, 1)
  logits = None
  if engine.drafter.reads_logits:
    missing = engine.drafter.widths[-1] - 1
    logits = jnp.pad(run.logits, ((0, 0), (0, missing), (0, 0)))
  extra = ((0, 0), (0, burst - 1), (0, 0))
  seen = Feedback(
    inputs=zero.at[:, :1].set(last),
    emitted=zero.at[:, :1].set(following),
    count=count,
    taps={name: jnp.pad(x, extra) for name, x in run.taps.items()},
    slots=zero,
    accepted=jnp.zeros_like(count),
    nodes=proposal.nodes,
    logits=logits,
  )
  length = rows.length + count
  return found, dataclasses.replace(
    rows,
    length=length,
    active=length < until,
    cache=kv_cache.commit(rows.cache, run.fresh, zero[:, :1], count),
    draft=engine.drafter.observe(params, draft, seen),
  )


def _measure(
  rows: Rows, proposal: Proposal, logits: Float[Array, "B 1 V"], until
):
  """The fields of `Positions`, [B] each."""
  p = sampling.dense(sampling.make_law(logits, rows.sampling))[:, 0]
  token = proposal.nodes.tokens[:, 0]
  if proposal.q is None or proposal.q_row is None:
    q, likeliest = jax.nn.one_hot(token, p.shape[-1]), token
  else:
    shape = proposal.nodes.tokens.shape
    row = jnp.broadcast_to(proposal.q_row, shape)[:, 0]
    q = sampling.dense(proposal.q, row)
    likeliest = sampling.lowest_argmax(q)
  proposed = rows.active & (proposal.nodes.count > 0)

  def where(value):
    return jnp.where(proposed, value, jnp.zeros_like(value))

  size = max(proposal.nodes.max_depth, 1)
  text = passes.gather_tokens(rows.tokens, rows.length, size)
  there = rows.length[:, None] + jnp.arange(size)[None] < until[:, None]
  kept = trees.depth_along(proposal.nodes, jnp.where(there, text, -1))
  entropy = -jnp.where(p > 0, p * jnp.log(jnp.maximum(p, 1e-37)), 0.0).sum(-1)
  return (
    rows.active,
    proposed,
    where(theory.acceptance(p, q)),
    where((p * q).sum(-1)),
    where(likeliest == sampling.lowest_argmax(logits[:, 0])),
    entropy,
    where(kept),
  )
