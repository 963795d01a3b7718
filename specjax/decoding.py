"""The one loop: draft, verify, accept, commit, until the rows are done.

A method is a drafter and a rule; plain decoding is the loop with no nodes. The
whole generation is one `lax.while_loop` under one `jit`; a stream runs the same
loop a bounded number of rounds at a time.
"""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Key

from specjax import looks, passes
from specjax.models import cache as kv_cache
from specjax.passes import Engine
from specjax.types import (
  LENGTH,
  RUNNING,
  Feedback,
  Params,
  Rows,
  Sampling,
  Streams,
)


def init_rows(
  engine: Engine,
  params: Params,
  tokens: Int[Array, "B T"],
  prompt_length: Int[Array, "B"],
  *,
  key: Key[Array, "B"],
  sampling: Sampling,
  limit: Int[Array, "B"],
  max_draft: Int[Array, "B"],
  max_rounds: int,
  logprobs: bool = False,
  look: bool = False,
) -> Rows:
  """Rows before prefill; prompts stand at the left of `tokens`.

  Args:
    tokens: the buffers; a limit past their end T is lowered to T.
    prompt_length: 1 or more. A row whose prompt fills its limit is done from
      the start.
    key: one key a row.
    sampling: the law asked for.
    limit: largest length of a row, prompt included.
    max_draft: largest depth of a row's drafts.
    max_rounds: rounds whose figures are kept; later ones run unrecorded.
    logprobs: whether to keep log-probabilities of emitted tokens.
    look: whether to keep a look at the last round.
  """
  batch, size = tokens.shape
  limit = jnp.minimum(limit, size)
  active = prompt_length < limit
  finish = jnp.where(active, RUNNING, LENGTH).astype(jnp.int32)
  given = dict(
    tokens=tokens,
    length=prompt_length,
    prompt_length=prompt_length,
    limit=limit,
    active=active,
    finish=finish,
    key=key,
    sampling=sampling,
    max_draft=max_draft,
  )
  # The rows are donated later: nothing in them may be the caller's.
  given = jax.tree.map(lambda x: x.copy(), given)
  state = _empty(
    engine, params, tokens, prompt_length, max_rounds, logprobs, look
  )
  return Rows(**given, **state)


@jax.jit(static_argnames=("engine", "max_rounds", "logprobs", "look"))
def _empty(engine, params, tokens, prompt_length, max_rounds, logprobs, look):
  batch, size = tokens.shape
  nodes, vocab = engine.drafter.num_nodes, engine.model.vocab_size
  return dict(
    rounds=jnp.zeros((batch,), jnp.int32),
    history=jnp.zeros((batch, max_rounds, 4), jnp.int32),
    cache=engine.model.init_cache(batch, size),
    logprobs=jnp.zeros((batch, size)) if logprobs else None,
    look=looks.empty(batch, nodes, engine.burst, vocab) if look else None,
    constraint=engine.constraint.init(params.constraint, tokens, prompt_length),
    draft=engine.drafter.init(params, batch, size),
    control=engine.policy.init(batch),
  )


def decode_round(engine: Engine, params: Params, rows: Rows) -> Rows:
  """One draft-verify-accept-commit cycle: exactly one target pass."""
  keys = Streams(rows.key, rows.length)
  proposal, draft = passes.propose(engine, params, rows, keys)
  judged, width = passes.judge(engine, params, rows, proposal, keys)
  verdict = judged.verdict

  emitted = passes.emit(proposal.nodes, verdict)
  count = jnp.where(rows.active, verdict.accepted + 1, 0)
  count = jnp.minimum(count, rows.limit - rows.length)
  constraint, count, finish = engine.constraint.advance(
    params.constraint, rows.constraint, emitted, count
  )
  full = (finish == RUNNING) & (rows.length + count >= rows.limit)
  finish = jnp.where(full, LENGTH, finish)

  accepted = jnp.minimum(verdict.accepted, count)
  last = passes.gather_tokens(rows.tokens, rows.length - 1, 1)
  seen = Feedback(
    inputs=jnp.concatenate([last, emitted[:, :-1]], 1),
    emitted=emitted,
    count=count,
    taps=judged.taps,
    slots=verdict.slots,
    accepted=accepted,
    nodes=proposal.nodes,
    logits=judged.logits,
  )
  drafted = jnp.where(rows.active, proposal.nodes.count, 0)
  width = jnp.broadcast_to(width, count.shape)
  record = jnp.stack([drafted, accepted, count, width], -1)
  control = engine.policy.update(rows.control, rows, proposal, seen)
  return dataclasses.replace(
    _commit(rows, judged, emitted, count, record),
    active=rows.active & (finish == RUNNING),
    finish=jnp.where(rows.active, finish, rows.finish),
    constraint=_where_active(rows.active, constraint, rows.constraint),
    control=_where_active(rows.active, control, rows.control),
    draft=engine.drafter.observe(params, draft, seen),
  )


def _commit(
  rows: Rows,
  judged: passes.Judged,
  emitted: Int[Array, "B S"],
  count: Int[Array, "B"],
  record: Int[Array, "B 4"],
) -> Rows:
  """Writes what a round kept: text, cache, figures; nothing of done rows.

  The cache held every token but the last. Now it gets that one and the kept
  nodes; the round's own extra token is the new last.
  """
  start, ran = rows.length, rows.active.astype(jnp.int32)
  logprobs = rows.logprobs
  if logprobs is not None and judged.logprobs is not None:
    logprobs = passes.write_tokens(logprobs, judged.logprobs, start, count)
  order = jnp.arange(emitted.shape[1], dtype=jnp.int32)
  order = jnp.broadcast_to(order, emitted.shape)
  history = passes.write_tokens(rows.history, record[:, None], rows.rounds, ran)
  return dataclasses.replace(
    rows,
    tokens=passes.write_tokens(rows.tokens, emitted, start, count),
    length=start + count,
    rounds=rows.rounds + ran,
    history=history,
    cache=kv_cache.commit(rows.cache, judged.fresh, order, count),
    logprobs=logprobs,
    look=judged.look,
  )


def _where_active(active: Bool[Array, "B"], new, old):
  def choose(new, old):
    shape = (-1,) + (1,) * (new.ndim - 1)
    return jnp.where(active.reshape(shape), new, old)

  return jax.tree.map(choose, new, old)


@jax.jit(static_argnames=("engine", "chunk"), donate_argnames="rows")
def prefill(engine: Engine, params: Params, rows: Rows, *, chunk: int) -> Rows:
  """Reads the prompts, `chunk` tokens of every row a pass; donates `rows`."""
  return passes.prefill(engine, params, rows, chunk)


@jax.jit(static_argnames="engine", donate_argnames="rows")
def decode(
  engine: Engine,
  params: Params,
  rows: Rows,
  max_rounds: Int[Array, ""],
  min_active: Int[Array, ""],
) -> Rows:
  """Runs rounds until `max_rounds` of them, or until fewer than `min_active`
  rows run; donates `rows`.

  A done row costs its lane, so a caller with work waiting sets `min_active`
  above 1, then compacts (`take_rows`) or refills (`put_row`).
  """

  def go_on(carry):
    rounds, rows = carry
    running = rows.active.sum(dtype=jnp.int32)
    return (rounds < max_rounds) & (running >= jnp.maximum(min_active, 1))

  def step(carry):
    rounds, rows = carry
    return rounds + 1, decode_round(engine, params, rows)

  start = (jnp.zeros((), jnp.int32), rows)
  return jax.lax.while_loop(go_on, step, start)[1]


def put_row(rows: Rows, index: Int[Array, ""], new: Rows) -> Rows:
  """Rows with row `index` replaced by the one row of `new`."""

  def put(old, new):
    return jax.lax.dynamic_update_index_in_dim(old, new[0], index, 0)

  return jax.tree.map(put, rows, new)


def take_rows(rows: Rows, index: Int[Array, "k"]) -> Rows:
  """The rows at `index`, in that order."""
  return jax.tree.map(lambda x: jnp.take(x, index, axis=0), rows)
