"""The loop driven by forests, riders, stops and several devices."""

import collections
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from specjax import decoding, sharding
from specjax.acceptance import ExactMatch, Rejection
from specjax.constraints import Stops, StopTables
from specjax.testing import (
  SETTINGS,
  RandomTree,
  Recital,
  Riders,
  Setting,
  cases,
  check_identity,
  model_case,
  runs,
)
from specjax.types import ACCEPTED, DRAFTED, STOP, WIDTH, Params

GREEDY = Setting(temperature=0.0)


def _plain(world, rows, size, **options):
  model, target = world
  lengths = [1 + i % 9 for i in range(rows)]
  prompts = cases.random_prompts(21, model.vocab_size, lengths)
  settings = [(*SETTINGS, GREEDY)[i % 6] for i in range(rows)]
  options = dict(new=24, size=size, settings=settings) | options
  wanted = cases.plain(model, target, prompts, **options)
  return prompts, options, wanted


def _assert_plain(got, wanted, to_the_bit):
  assert (got.tokens == wanted.tokens).all()
  assert (got.length == wanted.length).all()
  assert (got.cache.length == wanted.cache.length).all()
  for ours, theirs in zip(got.cache.arrays, wanted.cache.arrays, strict=True):
    live = np.arange(ours.shape[2])[None] < got.cache.length[:, None]
    live = live[:, None, :, None]
    ours, theirs = np.where(live, ours, 0), np.where(live, theirs, 0)
    if to_the_bit:
      assert (ours == theirs).all()
    else:
      np.testing.assert_allclose(ours, theirs, atol=2e-5)


@pytest.mark.parametrize("world", ["small_world", "net_world"])
def test_random_forests_give_plain_decoding(world):
  model, target = getattr(cases, world)()
  tables = world == "small_world"
  rows = 256 if tables else 16
  prompts, options, wanted = _plain((model, target), rows, 40)
  drafter = RandomTree(8, 4, model.vocab_size)
  engine = runs.make_engine(model, drafter, ExactMatch())
  params = Params(target, {"text": jnp.asarray(wanted.tokens)})
  budgets = [i % 5 for i in range(rows)]
  got = runs.run(engine, params, prompts, max_draft=budgets, **options)
  _assert_plain(got, wanted, tables)
  accepted = got.history[..., ACCEPTED]
  assert set(np.unique(accepted)) == set(range(5))
  depth = np.asarray(budgets)[:, None]
  assert (accepted <= depth).all()
  assert (got.history[np.asarray(budgets) == 0][..., DRAFTED] == 0).all()
  if tables:
    assert set(np.unique(got.history[..., WIDTH])) >= {0, 9}


@pytest.mark.parametrize("rule", [ExactMatch(), Rejection()])
def test_riders_are_shown_and_never_kept(rule):
  model, target = cases.small_world()
  settings = GREEDY if isinstance(rule, Rejection) else SETTINGS[0]
  prompts, options, wanted = _plain((model, target), 64, 40, settings=settings)
  params = Params(target, {"text": jnp.asarray(wanted.tokens)})
  engine = runs.make_engine(model, Riders(3, 4), rule)
  rows = runs.start(engine, params, prompts, **options)
  rows = runs.advance(engine, params, rows)
  seen, wrong = (np.asarray(rows.draft[name]) for name in ("seen", "wrong"))
  assert (seen > 0).all() and not wrong.any()
  got = runs.to_host(rows)
  _assert_plain(got, wanted, True)
  assert got.history[..., WIDTH].max() == 8
  bare = runs.make_engine(model, Recital(3), rule)
  alone = runs.run(bare, params, prompts, **options)
  same = [DRAFTED, ACCEPTED]
  assert (got.history[..., same] == alone.history[..., same]).all()


def _automaton(text, vocab):
  """Transitions that reach the last state where `text` has been said."""
  states = len(text) + 1
  table = np.zeros((states, vocab), np.int32)
  for state in range(states):
    for token in range(vocab):
      said = [*text[:state], token]
      table[state, token] = max(
        n
        for n in range(min(states, len(said) + 1))
        if said[-n:] == text[:n] or n == 0
      )
  return StopTables(jnp.asarray(table))


def _commonest(rows):
  """The three tokens that the rows most often say in a row."""
  said = [runs.new_tokens(rows, i) for i in range(len(rows.length))]
  threes = collections.Counter(
    tuple(text[i : i + 3]) for text in said for i in range(len(text) - 2)
  )
  return list(threes.most_common(1)[0][0])


def test_stop_strings_inside_and_between_bursts():
  model, target = cases.small_world()
  prompts, options, free = _plain((model, target), 256, 40)
  text, stops = _commonest(free), Stops()
  tables = _automaton(text, model.vocab_size)
  draft = {"text": jnp.asarray(free.tokens)}
  got, plain = (
    runs.run(
      runs.make_engine(model, drafter, ExactMatch(), stops),
      Params(target, draft, tables),
      prompts,
      **options,
    )
    for drafter in (RandomTree(8, 4, model.vocab_size), None)
  )
  stopped = inside = between = 0
  for row in range(256):
    said = runs.new_tokens(free, row)
    ends = [i + 3 for i in range(len(said) - 2) if said[i : i + 3] == text]
    cut = ends[0] if ends else len(said)
    for rows in (got, plain):
      assert runs.new_tokens(rows, row) == said[:cut]
      assert (rows.finish[row] == STOP) == bool(ends)
    if ends:
      last = got.history[row, got.rounds[row] - 1]
      stopped += 1
      inside += last[ACCEPTED] >= last[2]
      between += last[2] < len(text)
  assert stopped > 20 and inside > 5 and between > 5


@pytest.mark.parametrize("world", ["wide_world", "net_world"])
def test_rows_over_eight_devices(world):
  model, target = getattr(cases, world)()
  case = model_case(Rejection())
  engine, params = case.engine(model, 8), case.params(model, target)
  if world == "wide_world":
    table = np.asarray(target["table"])
    prompts, options = check_identity.wide_requests(table, model.vocab_size)
  else:
    prompts, options = check_identity.net_requests(model.vocab_size)
  options["settings"] = [SETTINGS[i % 5] for i in range(len(prompts))]
  wanted = runs.run(engine, params, prompts, **options)

  mesh = sharding.make_mesh(data=8)
  everywhere = NamedSharding(mesh, PartitionSpec())
  bounds = jax.device_put((jnp.int32(1 << 30), jnp.int32(1)), everywhere)
  rows = runs.start(engine, params, prompts, **options)
  params = jax.device_put(params, everywhere)
  leaves, form = jax.tree.flatten(sharding.shard_rows(rows, mesh))

  def decode(leaves, params, bounds):
    rows = jax.tree.unflatten(form, leaves)
    return jax.tree.leaves(decoding.decode(engine, params, rows, *bounds))

  program = jax.jit(decode).lower(leaves, params, bounds).compile()
  tail = ",{},{}".format(*rows.cache.layers[0][0].shape[2:])
  moves = re.findall(
    r"= (.*?) (?:all-gather|all-to-all|collective-permute)", program.as_text()
  )
  for shapes in moves:
    assert tail + "]" not in shapes, shapes
  got = jax.tree.unflatten(form, program(leaves, params, bounds))
  assert len(got.tokens.sharding.device_set) == 8
  assert (np.asarray(got.tokens) == wanted.tokens).all()
  assert (np.asarray(got.history) == wanted.history)[..., :WIDTH].all()
