"""A cell must move when what it is made of is perturbed."""

import importlib
import math
import re

import jax
import pytest

from specjax.evaluation.reproduction import Settings

QUICK = Settings(quick=True)


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


@pytest.fixture
def moved(monkeypatch):
  """moved(make, target, change) -> {place: whether its cell moved}.

  `make` is called with quick settings, once as it is and once with the target
  ("package.module:name") replaced by change(the original). Cells without a
  number of ours are left out. With compiled=True programs are compiled anew, as
  a change inside a jitted function needs.
  """

  def call(make, target, change, compiled=False):
    before = {cell.place: cell for cell in make(QUICK)}
    owner, name = find(target)
    with monkeypatch.context() as patch:
      patch.setattr(owner, name, change(getattr(owner, name)))
      if compiled:
        jax.clear_caches()
      after = {cell.place: cell for cell in make(QUICK)}
    if compiled:
      jax.clear_caches()
    assert after.keys() == before.keys(), "places must not depend on figures"
    return {
      place: has_moved(cell, after[place])
      for place, cell in before.items()
      if math.isfinite(cell.ours)
    }

  return call


@pytest.fixture
def assert_every_cell_moves(moved):
  """assert_every_cell_moves(make, perturbations, but="").

  Args of the call:
    make: a paper's `cells`, or the part of it that a test is about.
    perturbations: (target, change) pairs; every cell must move under at least
      one of them, and each of them must move a cell.
    but: a pattern of places that are none of this test's.
  """

  def call(make, perturbations, but=None, compiled=False):
    still = None
    for target, change in perturbations:
      found = moved(make, target, change, compiled)
      places = {place for place, has in found.items() if has}
      assert places, f"{target} moves nothing"
      still = (found.keys() if still is None else still) - places
    left = [p for p in still if but is None or not re.search(but, p)]
    assert not left, f"nothing moves {left}"

  return call
