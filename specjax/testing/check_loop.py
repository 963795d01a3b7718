"""Checks of the loop as a program: seeds, repeats, compilation, transfers."""

import contextlib

import jax
import jax.numpy as jnp
import numpy as np

from specjax import decoding
from specjax.testing import cases, runs
from specjax.testing.cases import SETTINGS, Case
from specjax.testing.check_identity import WIDE, assert_same_tokens

_FILTERS = ("temperature",)
_COMPILED = "/jax/core/compile/backend_compile_duration"


def _wide(case: Case, **changes):
  model, target = cases.wide_world()
  prompts = cases.random_prompts(
    14, model.vocab_size, [5 + i % 9 for i in range(WIDE)]
  )
  options = dict(new=24, size=56, settings=SETTINGS[0]) | changes
  return case.engine(model, 8), case.params(model, target), prompts, options


def seeds(case: Case) -> str:
  """One key, one output, wherever the row stands; another key, another."""
  engine, params, prompts, options = _wide(case)
  prompts = [prompts[0]] * len(prompts)
  numbers = np.arange(len(prompts)) // 2
  rows = runs.run(engine, params, prompts, seeds=numbers, **options)
  texts = [tuple(runs.new_tokens(rows, i)) for i in range(len(prompts))]
  assert texts[::2] == texts[1::2], "one key gave two outputs"
  assert len(set(texts)) > 0.95 * len(set(numbers)), "keys share outputs"
  return f"{len(set(texts))} outputs of {len(set(numbers))} keys"


def repeats(case: Case) -> str:
  """The same call again gives the same bits."""
  engine, params, prompts, options = _wide(case)
  first, second = (
    runs.run(engine, params, prompts, **options) for _ in range(2)
  )
  same = jax.tree.map(lambda a, b: bool((a == b).all()), first, second)
  assert jax.tree.all(same), "a second call gave something else"
  return f"{len(prompts)} rows"


def one_at_a_time(case: Case) -> str:
  """A stream of single rounds gives what one call gives."""
  engine, params, prompts, options = _wide(case)
  wanted = runs.run(engine, params, prompts, **options)
  rows = runs.start(engine, params, prompts, **options)
  for _ in range(options["new"]):
    rows = runs.advance(engine, params, rows, 1)
  got = runs.to_host(rows)
  same = jax.tree.map(lambda a, b: bool((a == b).all()), got, wanted)
  assert jax.tree.all(same), "single rounds gave something else"
  return f"{options['new']} calls"


def without_jit(case: Case) -> str:
  """The same tokens where no round is compiled."""
  model, target = cases.small_world()
  engine = case.engine(model, 2)
  params = case.params(model, target)
  prompts = [[2, 0, 1, 2, 0], [1, 3, 1]]
  options = dict(new=4, size=12, settings=SETTINGS[0], filters=_FILTERS)
  wanted = runs.run(engine, params, prompts, **options)
  rows = runs.start(engine, params, prompts, **options)
  with jax.disable_jit():
    rows = runs.advance(engine, params, rows)
  got = runs.to_host(rows)
  assert_same_tokens(got, wanted, "without jit")
  assert (got.history == wanted.history).all(), "without jit: other rounds"
  return f"{int(got.rounds.sum())} rounds"


@contextlib.contextmanager
def _compilations():
  seen = []

  def listen(event, duration, **_):
    if event == _COMPILED:
      seen.append(duration)

  jax.monitoring.register_event_duration_secs_listener(listen)
  try:
    yield seen
  finally:
    jax.monitoring.unregister_event_duration_listener(listen)


def dispatches(case: Case) -> str:
  """Between rounds nothing is compiled and nothing crosses to the host."""
  engine, params, prompts, options = _wide(case)
  rows = runs.start(engine, params, prompts, **options)
  one = jnp.asarray(1, jnp.int32)
  rows = decoding.decode(engine, params, rows, one, one)
  with _compilations() as seen, jax.transfer_guard("disallow"):
    for _ in range(4):
      rows = decoding.decode(engine, params, rows, one, one)
  assert not seen, f"{len(seen)} compilations between rounds"
  other = dict(options, settings=SETTINGS[4], new=11)
  longer = [prompt[:3] for prompt in prompts]
  again = runs.start(engine, params, longer, **other)
  with _compilations() as seen:
    decoding.decode(engine, params, again, one, one)
  assert not seen, "other lengths and settings were compiled anew"
  return "4 rounds, then other requests"
