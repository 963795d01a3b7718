"""What tests of papers share: settings, counts, and common perturbations."""

import collections

from specjax.evaluation.reproduction import Settings

QUICK = Settings(quick=True)
HERE = "specjax.evaluation.reproduction"
# The loop's laws alone become flatter; what they are held to stays.
FLAT = (f"{HERE}.bigram_loop:_logits", lambda f: lambda law: 0.2 * f(law))


def counts(cells):
  """{verdict: cells}."""
  return dict(collections.Counter(cell.verdict for cell in cells))


def differing(cells):
  """Places out of their tolerance."""
  return [cell.place for cell in cells if cell.verdict == "differs"]


def scaled(factor):
  """A change that multiplies what a function returns."""
  return lambda f: lambda *args: factor * f(*args)
