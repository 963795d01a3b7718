"""A round of drafting and verifying on a roofline, and what memory holds.

The speedup follows from tokens a round (`speedup`, `positions`) and the times
of `roofline`; every row of the batch runs. `batch_simulation` lets rows end.
"""

import dataclasses
from typing import NamedTuple

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Real

from specjax.theory.arrays import as_floats
from specjax.theory.devices import Device
from specjax.theory.roofline import (
  Pass,
  Setup,
  cache_bytes,
  model_pass,
  once_pass,
  weight_bytes,
)
from specjax.theory.shapes import ModelShape, OnceShape


@dataclasses.dataclass(frozen=True)
class Drafter:
  """Where drafts come from, to a roofline.

  Attributes:
    model: what runs once a draft token; None where nothing does (n-gram lookup,
      heads that guess all tokens at once).
    stored: parameters that it adds to memory.
    cached: whether it keeps a cache of its own.
    longest_context: it attends to no more than this, None to all.
    once: what runs once a draft, whatever its length; None where nothing does.
    longest: tokens that it drafts at most, one a head; None is any number.
  """

  model: ModelShape | None = None
  stored: int = 0
  cached: bool = False
  longest_context: int | None = None
  once: OnceShape | None = None
  longest: int | None = None


def lookup() -> Drafter:
  """Drafts copied from the text: no weights, no cache, no time."""
  return Drafter()


def separate(model: ModelShape) -> Drafter:
  """A model of its own (or a head of `shapes.head_of`) with its own cache."""
  return Drafter(model, model.stored, cached=True)


def sparse_self(target: ModelShape, kept_tokens: int) -> Drafter:
  """The target on a part of its cache (MagicDec, arXiv 2408.11049)."""
  return Drafter(target, longest_context=kept_tokens)


def draft_pass(
  drafter: Drafter,
  device: Device,
  setup: Setup,
  batch: Real[ArrayLike, "*#s"],
  context: Real[ArrayLike, "*#s"],
  num_speculative_tokens: Real[ArrayLike, "*#s"] = 1,
) -> Pass:
  """Figures of one pass of what drafts; zeros where it has no weights.

  It is over one token in each row, or over all of a draft where heads guess
  them at once.
  """
  batch, context, gamma = as_floats(batch, context, num_speculative_tokens)
  if drafter.model is not None:
    if drafter.longest_context is not None:
      context = jnp.minimum(context, drafter.longest_context)
    return model_pass(drafter.model, device, setup, batch, context)
  if drafter.once is not None:
    return once_pass(drafter.once, device, setup, batch, gamma)
  nothing = jnp.zeros_like(batch * context)
  return Pass(*([nothing] * len(Pass._fields)))


def whole_draft(
  drafter: Drafter,
  device: Device,
  setup: Setup,
  batch: Real[ArrayLike, "*#s"],
  context: Real[ArrayLike, "*#s"],
  num_speculative_tokens: Real[ArrayLike, "*#s"],
) -> Pass:
  """Sums over all passes of one draft: a pass a token, or one for all.

  What a model does once a draft is part of its first pass and has no fixed part
  of its own.
  """
  batch, context, gamma = as_floats(batch, context, num_speculative_tokens)
  one = draft_pass(drafter, device, setup, batch, context, gamma)
  if drafter.model is None:
    return one
  steps = Pass(*(gamma * part for part in one))
  if drafter.once is None:
    return steps
  inside = dataclasses.replace(setup, fixed_seconds=0.0)
  once = once_pass(drafter.once, device, inside, batch, gamma)
  return Pass(*(a + b for a, b in zip(steps, once, strict=True)))


class Round(NamedTuple):
  """A round against plain decoding at the same batch and context.

  Attributes:
    speedup: tokens a second over plain decoding's.
    seconds: of one round: all of the draft and the target's pass.
    draft_share: of those seconds.
    operations_factor: arithmetic a token over plain decoding's.
    tokens_per_second: of the whole batch, and of one device.
    draft: one pass of what drafts; see `draft_pass`.
  """

  speedup: Float[Array, "..."]
  seconds: Float[Array, "..."]
  draft_share: Float[Array, "..."]
  operations_factor: Float[Array, "..."]
  tokens_per_second: Float[Array, "..."]
  tokens_per_second_per_device: Float[Array, "..."]
  plain: Pass
  draft: Pass
  verify: Pass


def speculative_round(
  target: ModelShape,
  drafter: Drafter,
  device: Device,
  setup: Setup,
  batch: Real[ArrayLike, "*#s"],
  context: Real[ArrayLike, "*#s"],
  num_speculative_tokens: Real[ArrayLike, "*#s"],
  tokens: Real[ArrayLike, "*#s"],
  draft_setup: Setup | None = None,
) -> Round:
  """Expectation of one round with every row running.

  Args:
    tokens: that a row gains a round, the extra one counted (see `speedup` and
      `positions`).
    draft_setup: None runs the draft as the target.
  """
  batch, context, gamma, tokens = as_floats(
    batch, context, num_speculative_tokens, tokens
  )
  plain = model_pass(target, device, setup, batch, context)
  verify = model_pass(target, device, setup, batch, context, gamma + 1)
  place = (device, draft_setup or setup, batch, context, gamma)
  draft, whole = draft_pass(drafter, *place), whole_draft(drafter, *place)
  seconds = whole.seconds + verify.seconds
  # Arithmetic of all devices, should the two models be split differently.
  ways, draft_ways = setup.ways, (draft_setup or setup).ways
  spent = whole.operations * draft_ways + verify.operations * ways
  rate = batch * tokens / seconds
  return Round(
    speedup=tokens * plain.seconds / seconds,
    seconds=seconds,
    draft_share=whole.seconds / seconds,
    operations_factor=spent / (tokens * plain.operations * ways),
    tokens_per_second=rate,
    tokens_per_second_per_device=rate / ways,
    plain=plain,
    draft=draft,
    verify=verify,
  )


def largest_batch(
  target: ModelShape,
  drafter: Drafter | None,
  device: Device,
  setup: Setup,
  context: Real[ArrayLike, "*s"],
  memory_share: float = 0.9,
) -> Float[Array, "*s"]:
  """Rows whose caches fit beside the weights; 0 where the weights do not.

  Args:
    drafter: None for plain decoding.
    context: tokens that each row may come to hold.
    memory_share: of the device's memory that weights and caches may take.
  """
  (context,) = as_floats(context)
  stored, size = target.stored, float(cache_bytes(target, setup))
  if drafter is not None:
    stored += drafter.stored
    if drafter.cached and drafter.model is not None:
      size += float(cache_bytes(drafter.model, setup))
  room = device.memory * memory_share - weight_bytes(stored, setup)
  return jnp.maximum(jnp.floor(room / (context * size)), 0)


class Capacity(NamedTuple):
  """Plain decoding and drafting, each at the largest batch that fits.

  Attributes:
    speedup: tokens a second of the one over the other's.
  """

  plain_batch: Float[Array, "..."]
  batch: Float[Array, "..."]
  plain_tokens_per_second: Float[Array, "..."]
  tokens_per_second: Float[Array, "..."]
  speedup: Float[Array, "..."]


def at_capacity(
  target: ModelShape,
  drafter: Drafter,
  device: Device,
  setup: Setup,
  context: Real[ArrayLike, "*#s"],
  num_speculative_tokens: Real[ArrayLike, "*#s"],
  tokens: Real[ArrayLike, "*#s"],
  memory_share: float = 0.9,
) -> Capacity:
  """What the draft's weights and cache cost in rows, and so in throughput.

  Arguments as of `speculative_round` and `largest_batch`, which see; draft and
  target are split over the same devices.
  """
  context, gamma, tokens = as_floats(context, num_speculative_tokens, tokens)
  place = (device, setup)
  most = largest_batch(target, None, *place, context, memory_share)
  fits = largest_batch(target, drafter, *place, context, memory_share)
  plain = model_pass(target, *place, most, context)
  ours = speculative_round(
    target, drafter, *place, fits, context, gamma, tokens
  )
  plain_rate = most / plain.seconds
  rate = ours.tokens_per_second
  return Capacity(most, fits, plain_rate, rate, rate / plain_rate)
