"""Verdicts of cells, the registry's names, and the harness itself."""

import math

import pytest

from specjax.evaluation.reproduction import Cell, Settings, half_unit, registry
from specjax.theory import speedup


@pytest.mark.parametrize(
  "ours, published, tolerance, relative, verdict",
  [
    (1.531, 1.53, half_unit(2), False, "agrees"),
    (1.535, 1.53, half_unit(2), False, "agrees"),  # on the edge
    (1.536, 1.53, half_unit(2), False, "differs"),
    (1.524, 1.53, half_unit(2), False, "differs"),
    (2.06, 2.0, 0.035, True, "agrees"),
    (2.08, 2.0, 0.035, True, "differs"),
    (-2.06, -2.0, 0.035, True, "agrees"),
    (math.nan, 2.0, 1.0, False, "differs"),
    (1.0, None, 0.0, False, "no published cell"),
  ],
)
def test_verdict(ours, published, tolerance, relative, verdict):
  cell = Cell("here", "formula", ours, published, tolerance, relative)
  assert cell.verdict == verdict
  assert cell.agrees == {"agrees": True, "differs": False}.get(verdict)


def test_differences():
  cell = Cell("here", "formula", 2.5, 2.0, 0.1, relative=True)
  assert (cell.difference, cell.allowed) == (0.5, pytest.approx(0.2))
  none = Cell("here", "formula", 2.5, None, 0.1)
  assert (none.difference, none.allowed) == (None, None)


def test_names():
  assert registry.names_of("all") == registry.NAMES
  both = ("leviathan2023", "leviathan2023_trained")
  assert tuple(n for n in registry.NAMES if n.startswith("leviathan")) == both
  assert registry.names_of("walkthrough") == ("walkthrough",)
  with pytest.raises(ValueError, match="did you mean 'walkthrough'"):
    registry.names_of("walktrough")


def _made(settings: Settings):
  del settings
  ours = float(speedup.speedup(0.8, 5, 0.05))
  yield Cell("factor", "formula", ours, 2.95, half_unit(2))
  yield Cell("alone", "formula", 1.0, 1.0, half_unit(2))
  yield Cell("lost", "formula", math.nan, None, 0.0)


SPEEDUP = "specjax.theory.speedup:speedup"


def test_the_harness_sees_what_moves_and_what_does_not(
  assert_every_cell_moves,
):
  def slightly(f):
    return lambda *args: f(*args) + 0.001

  def clearly(f):
    return lambda *args: 1.01 * f(*args)

  found = assert_every_cell_moves(_made, [(SPEEDUP, clearly)], but="alone")
  assert [cell.place for cell in found] == ["factor", "alone", "lost"]
  with pytest.raises(AssertionError, match="nothing moves .'alone'."):
    assert_every_cell_moves(_made, [(SPEEDUP, clearly)])
  with pytest.raises(AssertionError, match="moves nothing"):
    assert_every_cell_moves(_made, [(SPEEDUP, slightly)])
