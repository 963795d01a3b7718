"""Rows at the ends of their buffers, and beside rows that are done."""

import dataclasses

import jax.numpy as jnp
import pytest

from specjax import decoding
from specjax.acceptance import Rejection
from specjax.drafters import DraftModel, NGram
from specjax.sampling import make_sampling
from specjax.testing import runs, tables
from specjax.testing.oracle import Setting
from specjax.types import LENGTH, Params, Slots

TARGET = tables.TableModel(5, 2)
WEIGHTS = tables.random_table(0, 5, 2)
SETTING = Setting(temperature=1.0)


def test_a_draft_of_more_than_128_tokens_is_judged_to_its_end():
  params = Params(tables.cyclic_table(5, 2))
  engine = runs.make_engine(TARGET, NGram(150, 1, 3))
  options = dict(new=160, size=176)
  got = runs.run(engine, params, [[0, 1, 2, 3, 4, 0, 1]], **options)
  assert got.history[0, :2, :3].tolist() == [[150, 150, 151], [8, 8, 9]]


def test_a_limit_past_the_buffer_is_the_buffers_end():
  engine, params = runs.make_engine(TARGET), Params(WEIGHTS)
  rows = decoding.init_rows(
    engine,
    params,
    jnp.ones((1, 8), jnp.int32),
    jnp.asarray([2]),
    key=runs.row_keys([0]),
    sampling=make_sampling(1),
    limit=jnp.asarray([20]),
    max_draft=jnp.asarray([0]),
    max_rounds=20,
  )
  rows = decoding.prefill(engine, params, rows, chunk=16)
  rows = runs.advance(engine, params, rows)
  ends = (rows.length, rows.cache.length, rows.rounds, rows.finish)
  assert [int(x[0]) for x in ends] == [8, 7, 6, LENGTH]


@dataclasses.dataclass(frozen=True)
class Nosy:
  """A table whose law tells how wide its pass is and how long its cache."""

  table: tables.TableModel

  @property
  def vocab_size(self):
    return self.table.vocab_size

  @property
  def max_positions(self):
    return self.table.max_positions

  def init_cache(self, batch, capacity):
    return self.table.init_cache(batch, capacity)

  def __call__(self, params, slots: Slots, cache, **options):
    run = self.table(params, slots, cache, **options)
    told = slots.tokens.shape[1] + cache.length.max()
    return dataclasses.replace(
      run, logits=run.logits.at[..., 0].add(3 * jnp.cos(3 * told))
    )


@pytest.mark.parametrize(
  "engine, draft, budget",
  [
    (
      runs.make_engine(TARGET, DraftModel(Nosy(TARGET), 3), Rejection()),
      tables.blur(WEIGHTS, 1, 0.3),
      3,
    ),
    (runs.make_engine(Nosy(TARGET), NGram(2, 1, 2)), None, 0),
  ],
)
def test_a_done_row_takes_no_part_in_the_passes_of_others(
  engine, draft, budget
):
  params = Params(WEIGHTS, draft)
  options = dict(size=40, settings=SETTING, max_draft=budget)
  # Twice the same row is that row alone, in the program for two.
  alone = runs.run(engine, params, [[3], [3]], new=30, seeds=[7, 7], **options)
  prompts = [[1, 2] * 15, [3]]
  rows = runs.start(
    engine, params, prompts, new=[2, 30], seeds=[0, 7], **options
  )
  rows = dataclasses.replace(rows, active=jnp.asarray([False, True]))
  if draft is not None:
    # As after a round that kept every node: the draft lacks two tokens.
    cache = rows.draft.cache
    cache = dataclasses.replace(
      cache, length=cache.length - jnp.asarray([1, 0])
    )
    rows = dataclasses.replace(
      rows, draft=dataclasses.replace(rows.draft, cache=cache)
    )
  both = runs.to_host(runs.advance(engine, params, rows))
  assert runs.new_tokens(both, 1) == runs.new_tokens(alone, 1)
  assert both.rounds.tolist() == [0, alone.rounds[1]]
