"""A cell must move when what it is made of is perturbed."""

import importlib
import math
import re

import pytest

from tests.evaluation.reproduction.changes import QUICK


def find(target):
  """(owner, attribute name) of "package.module:Class.attribute"."""
  module, _, path = target.partition(":")
  owner = importlib.import_module(module)
  *parents, name = path.split(".")
  for parent in parents:
    owner = getattr(owner, parent)
  return owner, name


def has_moved(before, after):
  """Beyond the tolerance; where nothing is published, at all."""
  allowed = before.allowed or 0.0
  return not abs(after.ours - before.ours) <= allowed


def remake(make, target, change):
  """{place: cell} with `target` ("package.module:name") changed meanwhile."""
  owner, name = find(target)
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(owner, name, change(getattr(owner, name)))
    return {cell.place: cell for cell in make(QUICK)}


def moved(before, make, target, change):
  """{place: whether its cell moved}, of the cells with a number of ours."""
  after = remake(make, target, change)
  assert after.keys() == before.keys(), "places must not depend on figures"
  return {
    place: has_moved(cell, after[place])
    for place, cell in before.items()
    if math.isfinite(cell.ours)
  }


@pytest.fixture
def assert_every_cell_moves():
  """assert_every_cell_moves(make, perturbations, but=None) -> the cells.

  Args of the call:
    make: a paper's `cells`, or the part of it that a test is about; called with
      quick settings as it is, then once a perturbation.
    perturbations: (target, change) pairs; `target` ("package.module:name") is
      replaced by change(the original). Every cell must move under at least one
      of them, and each of them must move a cell.
    but: a pattern of places that are none of this test's.
  """

  def call(make, perturbations, but=None):
    before = {cell.place: cell for cell in make(QUICK)}
    still = {p for p, cell in before.items() if math.isfinite(cell.ours)}
    for target, change in perturbations:
      found = moved(before, make, target, change)
      places = {place for place, has in found.items() if has}
      assert places, f"{target} moves nothing"
      still -= places
    left = [p for p in still if but is None or not re.search(but, p)]
    assert not left, f"nothing moves {left}"
    return list(before.values())

  return call
