"""The parts of a round: prefill, the target pass at a width, commit."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, Int, PyTree

from specjax import looks, sampling, trees
from specjax.models import cache as kv_cache
from specjax.types import (
  Cache,
  Constraint,
  Drafter,
  Feedback,
  Fresh,
  Look,
  Model,
  Params,
  Policy,
  Proposal,
  Rows,
  Rule,
  Slots,
  Streams,
  Verdict,
)


@dataclasses.dataclass(frozen=True)
class Engine:
  """All that is static in a generation; hashable, so jit holds it static."""

  model: Model
  drafter: Drafter
  rule: Rule
  policy: Policy
  constraint: Constraint

  @property
  def burst(self) -> int:
    """S: the most tokens that a round can emit."""
    return self.drafter.max_depth + 1


@struct.dataclass
class Judged:
  """What one target pass and the rule leave, the same shapes at every width."""

  verdict: Verdict
  fresh: Fresh  # of the kept slots: [B K S Dh] twice a layer
  taps: dict[str, Array]  # of the kept slots: [B S F]
  logprobs: Float[Array, "B S"] | None
  logits: Float[Array, "B W V"] | None
  look: Look | None


def causal(positions: Int[Array, "B S"]) -> Bool[Array, "1 S S"]:
  """Mask of a run of text: every slot sees those before it and itself."""
  size = positions.shape[1]
  return jnp.tril(jnp.ones((size, size), bool))[None]


def gather_tokens(
  tokens: Int[Array, "B T"], start: Int[Array, "B"], size: int
) -> Int[Array, "B S"]:
  """tokens[b, start[b] : start[b] + size], clipped at the buffer's ends."""
  index = start[:, None] + jnp.arange(size)[None]
  index = jnp.clip(index, 0, tokens.shape[1] - 1)
  return jnp.take_along_axis(tokens, index, 1)


def write_tokens(
  buffer: Array, values: Array, start: Int[Array, "B"], count: Int[Array, "B"]
) -> Array:
  """buffer[b, start[b] : start[b] + count[b]] = values[b, : count[b]].

  What would fall past the buffer's end is dropped, never shifted back.
  """
  index = jnp.arange(values.shape[1])[None]
  at = jnp.where(
    index < count[:, None], start[:, None] + index, buffer.shape[1]
  )
  write = jax.vmap(lambda row, at, new: row.at[at].set(new, mode="drop"))
  return write(buffer, at, values)


def confined(wanted: Bool[Array, ""], run):
  """run() inside a conditional; zeros in its form where it is not wanted.

  All reads of a cache stand inside a conditional, so that the commit, which
  follows it, may write in place. Without one XLA would let slot 0's K/V be
  written before its layer's attention has read, and copy the whole cache to
  make that safe.
  """
  return jax.lax.cond(wanted, run, lambda: _zeros(run))


def _zeros(run):
  """Zeros in the form of what `run` returns, without running it."""
  forms = []

  def leaves():
    arrays, form = jax.tree.flatten(run())
    forms.append(form)
    return arrays  # typed fields take arrays only, no shapes

  shapes = jax.eval_shape(leaves)
  return jax.tree.unflatten(
    forms[0], [jnp.zeros(x.shape, x.dtype) for x in shapes]
  )


def feed_text(
  model: Model,
  params: PyTree,
  inputs: Int[Array, "B S"],
  cache: Cache,
  count: Int[Array, "B"],
  taps: tuple[str, ...] = (),
) -> tuple[Cache, dict[str, Array]]:
  """Reads a run of text that stands at the cache's end, `count` long a row.

  Returns:
    (the cache with it, the features asked for).
  """
  index = jnp.arange(inputs.shape[1], dtype=jnp.int32)[None]
  positions = cache.length[:, None] + index
  slots = Slots(inputs, positions, causal(positions))
  none = jnp.zeros((1, 0), jnp.int32)

  def run():
    made = model(params, slots, cache, readout=none, taps=taps)
    return made.fresh, made.taps

  fresh, seen = confined((count > 0).any(), run)
  order = jnp.broadcast_to(index, inputs.shape)
  return kv_cache.commit(cache, fresh, order, count), seen


def read_text(
  model: Model,
  params: PyTree,
  tokens: Int[Array, "B T"],
  cache: Cache,
  until: Int[Array, "B"],
  size: int,
  taps: tuple[str, ...] = (),
) -> tuple[Cache, Feedback]:
  """Reads the next `size` tokens that the cache lacks, up to `until` a row.

  Returns:
    (the cache with them, what a drafter learns from them).
  """
  start = cache.length
  count = jnp.clip(until - start, 0, size)
  inputs = gather_tokens(tokens, start, size)
  cache, features = feed_text(model, params, inputs, cache, count, taps)
  following = gather_tokens(tokens, start + 1, size)
  return cache, Feedback(inputs, following, count, features)


def prefill(engine: Engine, params: Params, rows: Rows, chunk: int) -> Rows:
  """Brings the caches to all committed tokens but the last, chunk by chunk.

  No logits are computed: the first new token comes from the first round.
  """

  def missing(rows: Rows):
    return rows.active & (rows.cache.length < rows.length - 1)

  def step(rows: Rows) -> Rows:
    until = jnp.where(rows.active, rows.length - 1, 0)
    cache, seen = read_text(
      engine.model,
      params.target,
      rows.tokens,
      rows.cache,
      until,
      chunk,
      engine.drafter.taps,
    )
    draft = engine.drafter.observe(params, rows.draft, seen)
    return dataclasses.replace(rows, cache=cache, draft=draft)

  return jax.lax.while_loop(lambda rows: missing(rows).any(), step, rows)


def propose(
  engine: Engine, params: Params, rows: Rows, keys: Streams
) -> tuple[Proposal, PyTree]:
  """Budget, then proposal: a node never stands at the row's limit."""
  room = rows.limit - rows.length - 1
  budget = jnp.minimum(engine.policy.budget(rows.control, rows), rows.max_draft)
  budget = jnp.clip(jnp.minimum(budget, room), 0, engine.drafter.max_depth)
  budget = jnp.where(rows.active, budget, 0).astype(jnp.int32)
  proposal, draft = engine.drafter.propose(
    params, rows.draft, rows, budget, keys
  )
  _check(engine, proposal, rows.length.shape[0])
  siblings = engine.drafter.siblings
  return dataclasses.replace(proposal, siblings=siblings), draft


def _check(engine: Engine, proposal: Proposal, batch: int) -> None:
  """Raises ValueError where a proposal is not what its drafter declares."""
  drafter, nodes, q = engine.drafter, proposal.nodes, proposal.q
  name, size = type(drafter).__name__, drafter.num_nodes + drafter.num_riders
  got = (nodes.tokens.shape, nodes.num_judged, nodes.max_depth)
  declared = ((batch, size), drafter.num_nodes, drafter.max_depth)
  if got != declared:
    raise ValueError(
      f"{name} proposed (shape, judged, depth) {got}, declared {declared}"
    )
  widths = drafter.widths
  if list(widths) != sorted(set(widths)) or widths[-1] != 1 + size:
    raise ValueError(
      f"widths of {name} must rise to 1 + nodes + riders = {1 + size}, got"
      f" {widths}"
    )
  if q is not None and drafter.siblings == "point":
    raise ValueError(
      f"{name} declares siblings that no law was drawn for ('point') and states"
      " a q: leave q None, or declare how they were drawn from it"
    )
  if q is not None and q.scaled.shape[-1] != engine.model.vocab_size:
    raise ValueError(
      f"{name} draws from {q.scaled.shape[-1]} tokens and the target has"
      f" {engine.model.vocab_size}: wrap its model in Resized"
    )


def judge(
  engine: Engine, params: Params, rows: Rows, proposal: Proposal, keys: Streams
) -> tuple[Judged, Int[Array, ""]]:
  """Runs the narrowest compiled width that holds every active row's nodes.

  Returns:
    (what was judged, the width that ran).
  """
  widths = engine.drafter.widths
  needed = jnp.where(rows.active, trees.width_needed(proposal.nodes), 1).max()
  index = jnp.searchsorted(jnp.asarray(widths), needed)
  index = jnp.minimum(index, len(widths) - 1)
  branches = [
    functools.partial(_judge_at, engine, params, rows, proposal, keys, width)
    for width in widths
  ]
  if len(branches) == 1:
    judged = confined(rows.active.any(), branches[0])
  else:
    judged = jax.lax.switch(index, branches)
  return judged, jnp.asarray(widths, jnp.int32)[index]


def _judge_at(
  engine: Engine,
  params: Params,
  rows: Rows,
  proposal: Proposal,
  keys: Streams,
  width: int,
) -> Judged:
  nodes, q_row = trees.narrow(proposal.nodes, width), proposal.q_row
  if q_row is not None:
    q_row = q_row[:, : nodes.num_judged]
  proposal = dataclasses.replace(proposal, nodes=nodes, q_row=q_row)
  last = gather_tokens(rows.tokens, rows.length - 1, 1)[:, 0]
  slots = trees.make_slots(last, rows.length, nodes)
  cache = kv_cache.hide_done(rows.cache, rows.active)
  run = engine.model(params.target, slots, cache, taps=engine.drafter.taps)
  bent = engine.constraint.apply(
    params.constraint, rows.constraint, slots, run.logits
  )
  p = sampling.make_law(bent, rows.sampling)
  verdict = engine.rule(proposal, p, keys)

  extra = engine.burst - verdict.slots.shape[1]
  kept = jnp.pad(verdict.slots, ((0, 0), (0, extra)), mode="edge")
  verdict = dataclasses.replace(verdict, slots=kept)
  logprobs = look = None
  emitted = emit(nodes, verdict)
  if rows.look is not None:
    law = looks.readable(bent, rows.sampling)
    look = looks.look(proposal, law, verdict, emitted)
    look = looks.widen(look, engine.drafter.num_nodes)
  if rows.logprobs is not None:
    rows_kept = jnp.take_along_axis(run.logits, kept[..., None], 1)
    logprobs = jax.nn.log_softmax(rows_kept.astype(jnp.float32), -1)
    logprobs = jnp.take_along_axis(logprobs, emitted[..., None], 2)[..., 0]
  logits = None
  if engine.drafter.reads_logits:
    missing = engine.drafter.widths[-1] - width
    logits = jnp.pad(run.logits, ((0, 0), (0, missing), (0, 0)))
  at = kept[:, None, :, None]
  return Judged(
    verdict=verdict,
    fresh=jax.tree.map(lambda x: jnp.take_along_axis(x, at, 2), run.fresh),
    taps={
      name: jnp.take_along_axis(x, kept[..., None], 1)
      for name, x in run.taps.items()
    },
    logprobs=logprobs,
    logits=logits,
    look=look,
  )


def emit(nodes, verdict: Verdict) -> Int[Array, "B S"]:
  """Emitted tokens of a round: the kept nodes', then the target's own.

  slots    0 3 5 5 5     accepted = 2
  tokens   .[2] [4] next next next
  """
  following = jnp.roll(verdict.slots, -1, 1)  # slot that follows each
  tokens = jnp.pad(nodes.tokens, ((0, 0), (1, 0)))  # by slot
  kept = jnp.take_along_axis(tokens, following, 1)
  index = jnp.arange(kept.shape[1])[None]
  return jnp.where(
    index < verdict.accepted[:, None], kept, verdict.next_token[:, None]
  )
