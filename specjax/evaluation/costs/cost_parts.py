"""The parts of a round as programs of their own, to be timed.

A part runs several times in one call, each waiting for the one before, so that
the time of a call with no run at all can be taken off: a dispatch is no part of
a round.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PyTree

from specjax import decoding, passes
from specjax.passes import Engine
from specjax.types import (
  Cache,
  Feedback,
  Model,
  Params,
  Rows,
  Sampling,
  Slots,
  Streams,
  Verdict,
)

_CHUNK = 64


@jax.jit(static_argnames="model")
def run_passes(
  model: Model,
  params: PyTree,
  tokens: Int[Array, "1 W"],
  cache: Cache,
  times: Int[Array, ""],
):
  """The target on W slots, again and again; each waits for the one before."""
  index = jnp.arange(tokens.shape[1], dtype=jnp.int32)[None]
  positions = cache.length[:, None] + index

  def again(_, logits):
    other = jnp.isnan(logits[:, :, 0]).astype(jnp.int32)
    slots = Slots(tokens + other, positions, passes.causal(positions))
    return model(params, slots, cache).logits

  start = jnp.zeros((*tokens.shape, model.vocab_size), jnp.float32)
  return jax.lax.fori_loop(0, times, again, start)


def prefilled(
  engine: Engine,
  params: Params,
  sampling: Sampling,
  cache: Cache,
  context: int,
) -> tuple[Rows, PyTree]:
  """(rows without a draft state, the draft state that has read their text).

  Args:
    cache: of the target, `filled` with all but the last token of `context`.
  """
  capacity = cache.layers[0][0].shape[2]
  rows = decoding.init_rows(
    engine,
    params,
    text(engine.model, capacity),
    one(context),
    key=jax.random.key(0)[None],
    sampling=sampling,
    limit=one(capacity),
    max_draft=one(engine.drafter.max_depth),
    max_rounds=capacity,
  )
  draft = rows.draft
  for start in range(0, context - 1, _CHUNK):
    count = min(_CHUNK, context - 1 - start)
    draft = _read(engine, params, rows.tokens, draft, one(start), one(count))
  return dataclasses.replace(rows, cache=cache, draft=None), draft


def one(value: int) -> Int[Array, "1"]:
  """A number of a single row."""
  return jnp.full((1,), value, jnp.int32)


def text(model: Model, size: int) -> Int[Array, "1 T"]:
  """Tokens of no meaning, hardly two alike."""
  ids = np.random.default_rng(0).integers(0, model.vocab_size, (1, size))
  return jnp.asarray(ids, jnp.int32)


def filled(model: Model, capacity: int, length: int) -> Cache:
  """A cache of zeros, `length` of them visible."""
  cache = model.init_cache(1, capacity)
  return dataclasses.replace(cache, length=one(length))


@jax.jit(static_argnames="engine", donate_argnames="draft")
def _read(engine: Engine, params: Params, tokens, draft, start, count):
  """A prefill chunk as the drafter sees it, with features of zeros."""
  seen = Feedback(
    inputs=passes.gather_tokens(tokens, start, _CHUNK),
    emitted=passes.gather_tokens(tokens, start + 1, _CHUNK),
    count=count,
    taps=_no_features(engine, params, _CHUNK),
  )
  return engine.drafter.observe(params, draft, seen)


@jax.jit(static_argnames="engine", donate_argnames="draft")
def run_drafts(
  engine: Engine,
  params: Params,
  rows: Rows,
  draft: PyTree,
  keep: Bool[Array, "1"],
  times: Int[Array, ""],
):
  """The drafter's side of rounds that keep every node, or none.

  Returns:
    (committed tokens after them, the draft state, the last proposal's leaves:
    a proposal that nobody reads would not be made).
  """

  def leaves():
    return jax.tree.leaves(_draft_side(engine, params, rows, draft, keep)[2])

  def step(_, carry):
    length, draft, _ = carry
    now = dataclasses.replace(rows, length=length)
    count, draft, proposal = _draft_side(engine, params, now, draft, keep)
    return length + count, draft, jax.tree.leaves(proposal)

  none = [jnp.zeros(x.shape, x.dtype) for x in jax.eval_shape(leaves)]
  return jax.lax.fori_loop(0, times, step, (rows.length, draft, none))


def _draft_side(engine: Engine, params: Params, rows: Rows, draft, keep):
  """(tokens emitted, draft state, proposal) of one round."""
  rows = dataclasses.replace(rows, draft=draft)
  keys = Streams(rows.key, rows.length)
  proposal, draft = passes.propose(engine, params, rows, keys)
  nodes, depth = proposal.nodes, engine.drafter.max_depth
  accepted = jnp.where(keep, nodes.count, 0)
  index = jnp.arange(depth + 1, dtype=jnp.int32)[None]
  slots = jnp.minimum(index, accepted[:, None])
  emitted = passes.emit(nodes, Verdict(slots, accepted, rows.tokens[:, 0]))
  last = passes.gather_tokens(rows.tokens, rows.length - 1, 1)
  logits = None
  if engine.drafter.reads_logits:
    shape = (1, engine.drafter.widths[-1], engine.model.vocab_size)
    logits = jnp.zeros(shape, jnp.float32)
  seen = Feedback(
    inputs=jnp.concatenate([last, emitted[:, :-1]], 1),
    emitted=emitted,
    count=accepted + 1,
    taps=_no_features(engine, params, depth + 1),
    slots=slots,
    accepted=accepted,
    nodes=nodes,
    logits=logits,
  )
  draft = engine.drafter.observe(params, draft, seen)
  return accepted + 1, draft, proposal


def _no_features(engine: Engine, params: Params, size: int):
  """Zeros in place of the target's features of `size` slots."""
  names = engine.drafter.taps
  if not names:
    return {}
  zero = jnp.zeros((1, size), jnp.int32)
  slots = Slots(zero, zero, passes.causal(zero))
  run = functools.partial(
    engine.model, readout=jnp.zeros((1, 0), jnp.int32), taps=names
  )
  cache = engine.model.init_cache(1, 0)
  shapes = jax.eval_shape(lambda: run(params.target, slots, cache).taps)
  return {name: jnp.zeros(x.shape, x.dtype) for name, x in shapes.items()}
