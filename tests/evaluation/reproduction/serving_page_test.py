"""The serving page within 3.5 %, and what its readouts are made of."""

import dataclasses

from specjax.evaluation.reproduction import Settings, serving_page
from specjax.theory.rounds import Drafter

MODULE = "specjax.evaluation.reproduction.serving_page"
QUICK = Settings(quick=True)


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


def _tenth(f):
  return lambda *args: 1.1 * f(*args)


def _more(f):
  return lambda *args: f(*args) + 5e4


def _pass(settings):
  del settings
  yield from serving_page._verify_pass()


def _closed(settings):
  del settings
  yield from serving_page._closed_forms()


def test_readouts(assert_every_cell_moves):
  found = list(serving_page._simulated(QUICK))
  assert [c.place for c in found if not c.agrees] == []
  assert len(found) == 37
  assert_every_cell_moves(
    serving_page._simulated,
    [
      ("specjax.theory.batch_simulation:_figures", _slower),
      (f"{MODULE}:play", _first(0.8)),
    ],
  )


def test_claims(assert_every_cell_moves):
  assert all(c.agrees for c in serving_page._claims(QUICK))
  assert_every_cell_moves(
    serving_page._claims,
    [
      ("specjax.theory.batch_simulation:_figures", _slower),
      (f"{MODULE}:play", _first(1.3)),
    ],
  )


def test_the_verify_pass(assert_every_cell_moves):
  def other(f):
    def call(*args):
      ours = f(*args)
      scaled = {name: 1.2 * value for name, value in ours._asdict().items()}
      scaled["arithmetic_seconds"] *= 3
      return type(ours)(**scaled)

    return call

  assert all(c.agrees for c in _pass(QUICK))
  assert_every_cell_moves(
    _pass,
    [
      ("specjax.theory.roofline:model_pass", other),
      ("specjax.theory.roofline:weight_bytes", _tenth),
      ("specjax.theory.roofline:cache_bytes", _more),
      (
        f"{MODULE}:SMALL",
        lambda m: dataclasses.replace(m, parameters=2 * m.parameters),
      ),
    ],
  )


def test_closed_forms(assert_every_cell_moves):
  def larger(f):
    return lambda *args: 1.2 * f(*args)

  def longer(f):
    return lambda alpha, gamma: f(alpha, 1.2 * gamma)

  assert all(c.agrees for c in _closed(QUICK))
  names = ("operations_factor", "most_tokens_per_pass", "speedup")
  assert_every_cell_moves(
    _closed,
    [(f"specjax.theory.speedup:{name}", larger) for name in names]
    + [
      ("specjax.theory.speedup:tokens_per_pass", longer),
      ("specjax.theory.speedup:tokens_per_pass", larger),
    ],
  )


def test_the_ladder():
  (ladder,) = serving_page.figures(QUICK)
  _, draft = ladder.curves["Qwen3-0.6B"]
  assert draft[0] > 1.5 and draft[-1] < 1
