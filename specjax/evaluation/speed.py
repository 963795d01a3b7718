"""What a round costs: against the memory, against its width, in a batch."""

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from specjax import constraints, control, decoding, passes, sampling
from specjax.acceptance import ExactMatch
from specjax.drafters import NGram, NoDraft
from specjax.evaluation import timing
from specjax.evaluation.costs.filler import Filler
from specjax.models import cache as kv_cache
from specjax.passes import Engine
from specjax.types import Drafter, Model, Params, Rows, Slots


@dataclasses.dataclass(frozen=True)
class Plan:
  """Sizes of a speed run; every row starts from the same prompt."""

  prompt: tuple[int, ...]
  rounds: int = 16
  repeats: int = 7
  capacity: int = 512
  chunk: int = 64
  widths: tuple[int, ...] = (5, 8)
  batch: int = 32


def measure(model: Model, params: PyTree, plan: Plan) -> dict:
  """Seconds of every case, and the ratios that the project promises.

  Returns:
    {"seconds": {case: [a repeat]}, "figures": {name: number}}; a case's time
    is that of one round, and figures come from minima.
  """
  reads, read_bytes = timing.read_kernels()
  round_of = functools.partial(_rounds, model, params, plan)
  size = len(plan.prompt)
  silent = NGram(max(plan.widths) - 1, size, size)
  cases: dict[str, Callable[[], float]] = {
    **reads,
    "plain": round_of(NoDraft(), 1),
    "bare step": _bare_step(model, params, plan),
    "lookup without a match": round_of(silent, 1),
    "plain top-p": round_of(NoDraft(), 1, temperature=0.8, top_p=0.9),
    "batch": round_of(NoDraft(), plan.batch),
    "batch top-p": round_of(NoDraft(), plan.batch, temperature=0.8, top_p=0.9),
  }
  for width in plan.widths:
    cases[f"width {width}"] = round_of(Filler(width - 1), 1)
  times = timing.take_turns(cases, plan.repeats)
  best = {name: min(values) for name, values in times.items()}
  weight_bytes = sum(x.nbytes for x in jax.tree.leaves(params))
  bandwidth = read_bytes / min(best[name] for name in reads)
  floor = weight_bytes / bandwidth
  figures = {
    "bandwidth_GBps": bandwidth / 1e9,
    "floor_ms": 1e3 * floor,
    "plain_ms": 1e3 * best["plain"],
    "plain_over_floor": best["plain"] / floor,
    "plain_over_bare_step": best["plain"] / best["bare step"],
    "silent_lookup_over_plain": best["lookup without a match"] / best["plain"],
    "top_p_over_greedy": best["plain top-p"] / best["plain"],
    "batch_tokens_per_s": plan.batch / best["batch"],
    "batch_top_p_over_greedy": best["batch top-p"] / best["batch"],
  }
  for width in plan.widths:
    figures[f"width_{width}_over_1"] = best[f"width {width}"] / best["plain"]
  return {"seconds": times, "figures": figures}


def _rounds(
  model: Model,
  params: PyTree,
  plan: Plan,
  drafter: Drafter,
  batch: int,
  **settings,
) -> Callable[[], float]:
  """Seconds of a round of `decode`, over `plan.rounds` of them."""
  engine = Engine(
    model=model,
    drafter=drafter,
    rule=ExactMatch(),
    policy=control.Constant(),
    constraint=constraints.Stops(),
  )
  weights = Params(params)
  rows = _prompts(engine, weights, plan, batch, settings)
  rows = decoding.prefill(engine, weights, rows, chunk=plan.chunk)
  once = jnp.int32(plan.rounds)

  def run() -> float:
    fresh = jax.tree.map(lambda x: x.copy(), rows)
    jax.block_until_ready(fresh)
    spent = timing.seconds(
      lambda: decoding.decode(engine, weights, fresh, once, jnp.int32(1))
    )
    return spent / plan.rounds

  return run


def _prompts(engine, params, plan: Plan, batch: int, settings) -> Rows:
  tokens = np.zeros((batch, plan.capacity), np.int32)
  tokens[:, : len(plan.prompt)] = plan.prompt
  full = jnp.full((batch,), plan.capacity, jnp.int32)
  return decoding.init_rows(
    engine,
    params,
    jnp.asarray(tokens),
    jnp.full((batch,), len(plan.prompt), jnp.int32),
    key=jax.random.split(jax.random.key(0), batch),
    sampling=sampling.make_sampling(batch, **settings),
    limit=full,
    max_draft=jnp.full((batch,), engine.drafter.max_depth, jnp.int32),
    max_rounds=plan.rounds,
  )


def _bare_step(model: Model, params: PyTree, plan: Plan) -> Callable[[], float]:
  """A greedy step under jit in a Python loop, and nothing else."""

  @jax.jit(donate_argnames="cache")
  def step(params, token, cache):
    positions = cache.length[:, None]
    slots = Slots(token, positions, passes.causal(positions))
    run = model(params, slots, cache)
    token = jnp.argmax(run.logits, -1).astype(jnp.int32)
    zero, one = jnp.zeros((1, 1), jnp.int32), jnp.ones((1,), jnp.int32)
    return token, kv_cache.commit(cache, run.fresh, zero, one)

  def run() -> float:
    cache = model.init_cache(1, plan.capacity)
    cache = dataclasses.replace(
      cache, length=jnp.full((1,), len(plan.prompt), jnp.int32)
    )
    token = jnp.full((1, 1), 100, jnp.int32)
    token, cache = step(params, token, cache)
    jax.block_until_ready(token)

    def loop(token=token, cache=cache):
      for _ in range(plan.rounds):
        token, cache = step(params, token, cache)
      return token

    return timing.seconds(loop) / plan.rounds

  return run
