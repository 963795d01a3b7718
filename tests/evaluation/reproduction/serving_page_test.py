"""The serving page within 3.5 %, and what its readouts are made of."""

import dataclasses

from specjax.evaluation.reproduction import serving_page
from specjax.theory.rounds import Drafter
from tests.evaluation.reproduction.changes import (
  HERE,
  QUICK,
  counts,
  differing,
  scaled,
)

MODULE = f"{HERE}.serving_page"


def _slower(f):
  """Other times and operations of drafting, judging and plain passes."""

  def call(model, device, setup, active, context, queries):
    figures = f(model, device, setup, active, context, queries)
    scale = 0.9 if queries == 1 else 3.5
    scale = 10.0 if isinstance(model, Drafter) else scale
    return {name: scale * value for name, value in figures.items()}

  return call


def _first(factor):
  """The first position is kept `factor` times as often."""

  def change(f):
    def call(case, *args):
      first = factor * case.first
      return f(dataclasses.replace(case, first=first), *args)

    return call

  return change


def _more(f):
  return lambda *args: f(*args) + 5e4


def _pass(settings):
  del settings
  yield from serving_page._verify_pass()


def _closed(settings):
  del settings
  yield from serving_page._closed_forms()


def test_readouts(assert_every_cell_moves):
  found = assert_every_cell_moves(
    serving_page._simulated,
    [
      ("specjax.theory.batch_simulation:_figures", _slower),
      (f"{MODULE}:play", _first(0.8)),
    ],
  )
  assert differing(found) == [] and len(found) == 37


def test_claims(assert_every_cell_moves):
  found = assert_every_cell_moves(
    serving_page._claims,
    [
      ("specjax.theory.batch_simulation:_figures", _slower),
      (f"{MODULE}:play", _first(1.3)),
    ],
  )
  assert counts(found) == {"agrees": 2}


def test_the_verify_pass(assert_every_cell_moves):
  def other(f):
    def call(*args):
      ours = f(*args)
      scaled = {name: 1.2 * value for name, value in ours._asdict().items()}
      scaled["arithmetic_seconds"] *= 3
      return type(ours)(**scaled)

    return call

  found = assert_every_cell_moves(
    _pass,
    [
      ("specjax.theory.roofline:model_pass", other),
      ("specjax.theory.roofline:weight_bytes", scaled(1.1)),
      ("specjax.theory.roofline:cache_bytes", _more),
      (
        f"{MODULE}:SMALL",
        lambda m: dataclasses.replace(m, parameters=2 * m.parameters),
      ),
    ],
  )
  assert set(counts(found)) == {"agrees"}


def test_closed_forms(assert_every_cell_moves):
  def longer(f):
    return lambda alpha, gamma: f(alpha, 1.2 * gamma)

  names = ("operations_factor", "most_tokens_per_pass", "speedup")
  found = assert_every_cell_moves(
    _closed,
    [(f"specjax.theory.speedup:{name}", scaled(1.2)) for name in names]
    + [
      ("specjax.theory.speedup:tokens_per_pass", longer),
      ("specjax.theory.speedup:tokens_per_pass", scaled(1.2)),
    ],
  )
  assert set(counts(found)) == {"agrees"}


def test_the_ladder():
  (ladder,) = serving_page.figures(QUICK)
  _, draft = ladder.curves["Qwen3-0.6B"]
  assert draft[0] > 1.5 and draft[-1] < 1
