"""Checks that a row's output is its own, whatever stands beside it."""

import jax
import jax.numpy as jnp
import numpy as np

from specjax import decoding
from specjax.constraints import Stops
from specjax.testing import cases, runs
from specjax.testing.cases import GREEDY, SETTINGS, Case
from specjax.testing.check_identity import (
  WIDE,
  assert_same_tokens,
  net_requests,
  wide_requests,
)
from specjax.testing.runs import HostCache
from specjax.types import (
  ACCEPTED,
  DRAFTED,
  EMITTED,
  EOS,
  LENGTH,
  Params,
)

_SIZE = 56
_DEPTH = 8
_BATCH = 4


def requests(vocab_size: int) -> list[dict]:
  """Eight rows that differ in all that a row may differ in."""
  lengths = (1, 17, 5, 30, 9, 2, 24, 12)
  prompts = cases.random_prompts(11, vocab_size, list(lengths))
  new = (30, 12, 39, 26, 1, 20, 25, 7)
  budgets = (8, 0, 3, 8, 5, 1, 2, 8)
  settings = (*SETTINGS, GREEDY, GREEDY, cases.Setting(temperature=1.5))
  return [
    dict(
      prompts=[prompts[i]],
      new=new[i],
      max_draft=budgets[i],
      settings=[settings[i]],
      seeds=[100 + i],
      size=_SIZE,
      logprobs=True,
    )
    for i in range(8)
  ]


def _start(engine, params, wanted: list[dict]):
  together = dict(size=_SIZE, logprobs=True)
  for name in ("prompts", "settings", "seeds"):
    together[name] = [x for one in wanted for x in one[name]]
  for name in ("new", "max_draft"):
    together[name] = [one[name] for one in wanted]
  prompts = together.pop("prompts")
  return runs.start(engine, params, prompts, **together)


def _alone(engine, params, wanted: list[dict]):
  solo = []
  for one in wanted:
    rows = runs.advance(engine, params, _start(engine, params, [one]))
    solo.append(runs.to_host(rows))
  return solo


def _row(rows, index: int):
  return jax.tree.map(lambda x: x[index : index + 1], rows)


def assert_same_row(got, solo, what: str, to_the_bit: bool) -> None:
  """Fails unless a row on the host did what its solo run did.

  Args:
    got, solo: rows on the host, one row each.
    what: named in the message.
    to_the_bit: log-probabilities and the target's cache too.
  """
  assert_same_tokens(got, solo, what)
  names = ["tokens", "length", "finish", "rounds", "active"]
  for name in names:
    ours, theirs = getattr(got, name), getattr(solo, name)
    assert (ours == theirs).all(), f"{what}: {name} {ours} is not {theirs}"
  columns = [DRAFTED, ACCEPTED, EMITTED]
  same = got.history[..., columns] == solo.history[..., columns]
  assert same.all(), f"{what}: other rounds than alone"
  if to_the_bit:
    assert (got.logprobs == solo.logprobs).all(), f"{what}: log-probabilities"
    assert_same_cache(got.cache, solo.cache, what)


def assert_same_cache(got: HostCache, wanted: HostCache, what: str) -> None:
  """Fails unless two caches hold the same live slots."""
  assert (got.length == wanted.length).all(), (
    f"{what}: cache lengths {got.length} and {wanted.length}"
  )
  for ours, theirs in zip(got.arrays, wanted.arrays, strict=True):
    live = np.arange(ours.shape[2])[None] < got.length[:, None]
    differs = (ours != theirs) & live[:, None, :, None]
    assert not differs.any(), f"{what}: the caches differ"


def _setup(case: Case, world):
  model, target = world
  engine = case.engine(model, _DEPTH)
  return engine, case.params(model, target), requests(model.vocab_size)


def ragged_tables(case: Case) -> str:
  """Rows of a ragged batch equal their solo runs, to the bit."""
  engine, params, wanted = _setup(case, cases.wide_world())
  wanted = wanted[:_BATCH]
  solo = _alone(engine, params, wanted)
  got = runs.advance(engine, params, _start(engine, params, wanted))
  got = runs.to_host(got)
  for i, one in enumerate(solo):
    assert_same_row(_row(got, i), one, f"row {i}", True)
  return f"{len(wanted)} rows"


def ragged_nets(case: Case) -> str:
  """Rows of a ragged batch of a transformer equal runs among their like.

  Copies of a row take the others' places: one program runs both.
  """
  model, target = cases.net_world()
  engine, params = case.engine(model, _DEPTH), case.params(model, target)
  prompts, options = net_requests(model.vocab_size)
  batch = len(prompts)
  options |= dict(
    new=[1 + 5 * i for i in range(batch)],
    max_draft=[i % 9 for i in range(batch)],
    settings=[(*SETTINGS, GREEDY)[i % 6] for i in range(batch)],
  )
  seeds = np.arange(batch) + 50
  got = runs.run(engine, params, prompts, seeds=seeds, **options)
  for i in range(0, batch, 3):
    alike = {
      name: [value[i]] * batch if isinstance(value, list) else value
      for name, value in options.items()
    }
    seed = np.full(batch, seeds[i])
    same = runs.run(engine, params, [prompts[i]] * batch, seeds=seed, **alike)
    assert_same_row(_row(got, i), _row(same, 0), f"row {i}", False)
  return f"{len(range(0, batch, 3))} of {batch} rows"


def late_rows(case: Case) -> str:
  """Rows put in late, swapped out and in, or compacted equal solo runs."""
  engine, params, wanted = _setup(case, cases.wide_world())
  solo = _alone(engine, params, wanted)
  rows = _start(engine, params, wanted[:_BATCH])
  place = list(range(_BATCH))  # request at each index
  waiting, done = list(range(_BATCH, len(wanted))), {}
  step = 0
  while place:
    rows = runs.advance(engine, params, rows, 2)
    step += 1
    if step == 1:
      # Out goes row 2, the others turn round, and back it comes.
      kept = decoding.take_rows(rows, jnp.asarray([2]))
      rows = decoding.take_rows(rows, jnp.asarray([3, 1, 0, 2]))
      place = [3, 1, 0, 2]
      rows = runs.advance(engine, params, rows, 3)
      rows = decoding.put_row(rows, jnp.asarray(3), kept)
    host = runs.to_host(rows)
    for index in [i for i, on in enumerate(host.active) if not on]:
      done.setdefault(place[index], _row(host, index))
      if waiting:
        place[index] = waiting.pop(0)
        new = _start(engine, params, [wanted[place[index]]])
        rows = decoding.put_row(rows, jnp.asarray(index), new)
    active = np.asarray(rows.active)
    if not active.any():
      break
    if not waiting and active.sum() == 1 and len(place) > 1:
      last = int(np.argmax(active))
      rows = decoding.take_rows(rows, jnp.asarray([last]))
      place = [place[last]]
  assert sorted(done) == list(range(len(wanted))), f"finished: {sorted(done)}"
  for request, got in done.items():
    assert_same_row(got, solo[request], f"request {request}", True)
  return f"{len(wanted)} rows through {_BATCH} places"


def done_rows(case: Case) -> str:
  """A row that is done changes no more, whatever the others do."""
  engine, params, wanted = _setup(case, cases.wide_world())
  wanted = [dict(one) for one in wanted[:_BATCH]]
  wanted[1]["new"] = wanted[2]["new"] = 3
  rows = runs.advance(engine, params, _start(engine, params, wanted), 4)
  before = runs.to_host(rows)
  assert before.active.tolist() == [True, False, False, True], before.active
  after = runs.to_host(runs.advance(engine, params, rows))
  for i in (1, 2):
    old, new = _row(before, i), _row(after, i)
    paths = jax.tree_util.tree_leaves_with_path(old)
    for (path, x), y in zip(paths, jax.tree.leaves(new), strict=True):
      name = jax.tree_util.keystr(path)
      assert (x == y).all(), f"row {i} is done and its {name} changed"
  return "2 rows"


def limits(case: Case) -> str:
  """Limits, budgets of 0 and the end of the buffer are exact."""
  model, target = cases.wide_world()
  engine = case.engine(model, _DEPTH)
  params = case.params(model, target)
  prompts = cases.random_prompts(
    12, model.vocab_size, [1, 20, 30, _SIZE - 1] * (WIDE // 4)
  )
  new = np.asarray([(1, 2, 9, 24)[i // 4 % 4] for i in range(len(prompts))])
  budgets = np.asarray([i // 16 % 9 for i in range(len(prompts))])
  options = dict(new=new, size=_SIZE, max_draft=budgets)
  wanted = cases.plain(model, target, prompts, **options)
  got = runs.run(engine, params, prompts, **options)
  assert_same_tokens(got, wanted, "greedy")
  assert (got.length == got.limit).all(), "rows that stop short of the limit"
  assert (got.cache.length == got.length - 1).all(), "the cache's length"
  assert (got.finish == LENGTH).all(), "finish codes"
  past = np.arange(_SIZE)[None] >= got.limit[:, None]
  assert not got.tokens[past].any(), "tokens past the limit"
  assert not got.history[budgets == 0][..., DRAFTED].any(), "drafts at budget 0"
  emitted = got.history[..., EMITTED].sum(1)
  assert (emitted == got.length - got.prompt_length).all(), "emitted counts"
  room = got.limit[:, None] - got.prompt_length[:, None]
  before = np.cumsum(got.history[..., EMITTED], 1) - got.history[..., EMITTED]
  drafted = cases.depth_of_count(engine.drafter)[got.history[..., DRAFTED]]
  assert (drafted <= np.maximum(room - before - 1, 0)).all(), (
    "drafts past the limit"
  )
  return f"{len(prompts)} rows"


def full_prompt(case: Case) -> str:
  """A prompt that fills its limit is done before the first round."""
  engine, params, wanted = _setup(case, cases.wide_world())
  wanted = [dict(one) for one in wanted[:_BATCH]]
  wanted[0]["new"] = 0
  rows = runs.to_host(
    runs.advance(engine, params, _start(engine, params, wanted))
  )
  assert rows.rounds[0] == 0 and rows.finish[0] == LENGTH
  assert rows.length[0] == rows.prompt_length[0]
  return "1 row"


def end_of_text(case: Case) -> str:
  """What follows an end-of-text token in its burst is not emitted."""
  model, target = cases.wide_world()
  stops = Stops(eos_ids=(2, 7))
  table = np.asarray(target["table"])
  prompts, options = wide_requests(table, model.vocab_size)
  if case.is_exact_match:
    options["settings"] = SETTINGS[0]
  plain = runs.make_engine(model, constraint=stops)
  wanted = runs.run(plain, Params(target), prompts, **options)
  engine = case.engine(model, _DEPTH, stops)
  got = runs.run(engine, case.params(model, target), prompts, **options)
  assert_same_tokens(got, wanted, "with an end of text")
  assert (got.finish == wanted.finish).all(), "finish codes"
  assert (got.tokens == wanted.tokens).all(), "tokens after the end"
  ended = int((got.finish == EOS).sum())
  inside = (got.history[..., ACCEPTED] >= got.history[..., EMITTED]) & (
    got.history[..., EMITTED] > 0
  )
  assert ended and inside.any(), "no text ended inside a burst"
  return f"{ended} rows ended, {int(inside.sum())} inside a burst"
