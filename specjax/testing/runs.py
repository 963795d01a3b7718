"""Runs of the loop over many rows, with one program for all their settings."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from specjax import decoding
from specjax.acceptance import ExactMatch
from specjax.constraints import Stops
from specjax.control import Constant
from specjax.drafters import NoDraft
from specjax.passes import Engine
from specjax.testing.oracle import Setting
from specjax.types import (
  Cache,
  Constraint,
  Drafter,
  Model,
  Params,
  Rows,
  Rule,
  Sampling,
)

CHUNK = 4
FILTERS = ("temperature", "top_k", "top_p", "min_p")
_FOREVER = 1 << 30
_STOPS = Stops()


def make_engine(
  model: Model,
  drafter: Drafter | None = None,
  rule: Rule | None = None,
  constraint: Constraint = _STOPS,
) -> Engine:
  """An engine with a constant budget; without a drafter, plain decoding."""
  drafter = NoDraft() if drafter is None else drafter
  rule = ExactMatch() if rule is None else rule
  return Engine(model, drafter, rule, Constant(), constraint)


def row_keys(seeds):
  """One typed key for each seed; the same seed is the same key."""
  return jax.vmap(jax.random.key)(jnp.asarray(seeds, jnp.uint32))


def start(
  engine: Engine,
  params: Params,
  prompts: Sequence[Sequence[int]] | np.ndarray,
  *,
  new: int | Sequence[int] | np.ndarray,
  size: int,
  settings: Setting | Sequence[Setting] = Setting(temperature=0.0),  # noqa: B008
  max_draft: int | Sequence[int] | np.ndarray | None = None,
  seeds: Sequence[int] | np.ndarray | None = None,
  filters: Sequence[str] = FILTERS,
  logprobs: bool = False,
) -> Rows:
  """Rows after prefill.

  Args:
    prompts: tokens of each row; an array where all are as long.
    new: largest number of new tokens, one for all or one a row.
    size: length of the token buffer and of the caches.
    settings: sampling, one for all or one a row.
    max_draft: draft budget, the drafter's depth by default.
    seeds: a seed a row, its number by default.
    filters: what is traced; all filters by default, so that rows of any
      setting share a program.
    logprobs: whether log-probabilities are kept.
  """
  batch = len(prompts)
  lengths = np.asarray([len(p) for p in prompts], np.int32)
  tokens = np.zeros((batch, size), np.int32)
  if isinstance(prompts, np.ndarray):
    tokens[:, : prompts.shape[1]] = prompts
  else:
    for row, prompt in enumerate(prompts):
      tokens[row, : len(prompt)] = prompt
  if max_draft is None:
    max_draft = engine.drafter.max_depth
  each = [settings] * batch if isinstance(settings, Setting) else list(settings)
  limit = np.minimum(lengths + np.asarray(new), size)

  def whole(values):
    return jnp.asarray(np.broadcast_to(values, (batch,)), jnp.int32)

  rows = decoding.init_rows(
    engine,
    params,
    jnp.asarray(tokens),
    whole(lengths),
    key=row_keys(np.arange(batch) if seeds is None else seeds),
    sampling=Sampling(
      temperature=jnp.asarray([s.temperature for s in each], jnp.float32),
      top_k=jnp.asarray([s.top_k for s in each], jnp.int32),
      top_p=jnp.asarray([s.top_p for s in each], jnp.float32),
      min_p=jnp.asarray([s.min_p for s in each], jnp.float32),
      uses=frozenset(filters),
    ),
    limit=whole(limit),
    max_draft=whole(max_draft),
    max_rounds=size,
    logprobs=logprobs,
  )
  return decoding.prefill(engine, params, rows, chunk=CHUNK)


def advance(
  engine: Engine, params: Params, rows: Rows, rounds: int = _FOREVER
) -> Rows:
  """Runs at most so many rounds; `rows` are given away."""
  return decoding.decode(
    engine,
    params,
    rows,
    jnp.asarray(rounds, jnp.int32),
    jnp.asarray(1, jnp.int32),
  )


class HostCache(NamedTuple):
  """A cache in numpy: arrays [B K C Dh], and lengths [B]."""

  arrays: list[np.ndarray]
  length: np.ndarray


class HostRows(NamedTuple):
  """Rows in numpy, named as in `Rows`; every leaf leads with B.

  `state` is all else that a done row keeps: of a constraint and of a policy all
  leaves, of a drafter its caches.
  """

  tokens: np.ndarray
  length: np.ndarray
  prompt_length: np.ndarray
  limit: np.ndarray
  active: np.ndarray
  finish: np.ndarray
  rounds: np.ndarray
  history: np.ndarray
  logprobs: np.ndarray | None
  cache: HostCache
  state: list[np.ndarray]


def to_host(rows: Rows) -> HostRows:
  """A copy of rows in numpy, which outlives their donation."""

  def is_cache(x):
    return isinstance(x, Cache)

  kept = [rows.constraint, rows.control]
  kept += filter(is_cache, jax.tree.leaves(rows.draft, is_leaf=is_cache))
  return HostRows(
    tokens=np.array(rows.tokens),
    length=np.array(rows.length),
    prompt_length=np.array(rows.prompt_length),
    limit=np.array(rows.limit),
    active=np.array(rows.active),
    finish=np.array(rows.finish),
    rounds=np.array(rows.rounds),
    history=np.array(rows.history),
    logprobs=None if rows.logprobs is None else np.array(rows.logprobs),
    cache=HostCache(
      [np.array(x) for x in jax.tree.leaves(rows.cache.layers)],
      np.array(rows.cache.length),
    ),
    state=[np.array(x) for x in jax.tree.leaves(kept)],
  )


def run(engine: Engine, params: Params, prompts, **options) -> HostRows:
  """`start`, then to the end, on the host."""
  return to_host(
    advance(engine, params, start(engine, params, prompts, **options))
  )


def new_tokens(rows: HostRows, row: int) -> list[int]:
  """What a row on the host has emitted."""
  begin, end = int(rows.prompt_length[row]), int(rows.length[row])
  return rows.tokens[row, begin:end].tolist()
