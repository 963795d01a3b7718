"""Acceptance against training tokens: a curve, and what more data would give.

Axes: R resamples, N sizes, S seeds, P prompts.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from specjax.evaluation.figures.statistics import LEVEL

RESAMPLES = 999
_GRID = 300


@dataclasses.dataclass(frozen=True)
class Form:
  """A family of curves, of x tokens.

  Attributes:
    names: of its parameters.
    fit: (y [R N], x [N], largest value) -> parameters [R K], least squares.
    value: (parameters [R K], x) -> y [R].
  """

  names: tuple[str, ...]
  fit: Callable[..., Float[np.ndarray, "R K"]]
  value: Callable[..., Float[np.ndarray, "R"]]


def extrapolate(
  tokens: Sequence[float],
  totals: Float[np.ndarray, "N S P"],
  counts: Float[np.ndarray, "N S P"],
  *,
  times: float = 10.0,
  most: float = 1.0,
) -> dict[str, Any]:
  """Fits every form to the rates of the sizes; the best one speaks.

  The best has the least squared residual a degree of freedom, so that a form
  with as many parameters as there are sizes, which nothing can test, is taken
  only where there is no other. The interval is of prompts and seeds drawn
  again: prompts for all sizes together, seeds for each size.

  Args:
    tokens: x of each size, all of them different.
    totals, counts: of each size, seed and prompt; their ratio is a rate.
    times: how many times the largest x is asked about.
    most: what no rate exceeds.

  Returns:
    form, parameters, residual (root mean square), tokens (asked about), value,
    low and high there, gain (estimate, low, high) over the largest size; and
    `forms`, parameters, residual and value of each.

  Raises:
    ValueError: fewer than three sizes.
  """
  x = np.asarray(tokens, np.float64)
  if len(set(tokens)) < 3:
    raise ValueError(
      f"a curve needs three sizes of data, got {len(set(tokens))}"
    )
  far = times * x.max()
  points = totals.sum((1, 2)) / counts.sum((1, 2))
  forms = {
    name: _described(form, points, x, far, most) for name, form in FORMS.items()
  }
  best = min(forms, key=lambda name: forms[name].pop("badness"))
  for other in forms.values():
    other.pop("badness", None)
  rates, largest = _resampled(totals, counts), int(x.argmax())
  values = FORMS[best].value(FORMS[best].fit(rates, x, most), far)
  low, high = _middle(values)
  gain_low, gain_high = _middle(values - rates[:, largest])
  return {
    "form": best,
    **forms[best],
    "tokens": far,
    "low": low,
    "high": high,
    "gain": {
      "estimate": forms[best]["value"] - float(points[largest]),
      "low": gain_low,
      "high": gain_high,
    },
    "forms": forms,
  }


def curve(
  found: dict[str, Any], x: Float[np.ndarray, "M"]
) -> Float[np.ndarray, "M"]:
  """The chosen form of `extrapolate` at other sizes."""
  form = FORMS[found["form"]]
  values = [[found["parameters"][name] for name in form.names]] * len(x)
  return form.value(np.asarray(values), x)


def _described(
  form: Form, points, x, far: float, most: float
) -> dict[str, Any]:
  (parameters,) = form.fit(points[None], x, most)
  fitted = form.value(np.tile(parameters, (len(x), 1)), x)
  squares = float(((fitted - points) ** 2).sum())
  free = len(x) - len(form.names)
  return {
    "parameters": dict(zip(form.names, parameters.tolist(), strict=True)),
    "residual": float(np.sqrt(squares / len(x))),
    "value": float(form.value(parameters[None], far)[0]),
    # Rounding aside, what fits exactly is not told apart.
    "badness": max(squares, 1e-16) / free if free > 0 else np.inf,
  }


def _middle(values: Float[np.ndarray, "R"]) -> tuple[float, float]:
  """The ends of 95 %."""
  tail = 100 * (1 - LEVEL) / 2
  low, high = np.percentile(values, [tail, 100 - tail])
  return float(low), float(high)


def _resampled(totals, counts) -> Float[np.ndarray, "R N"]:
  rng = np.random.default_rng(0)
  sizes, seeds, prompts = totals.shape
  rates = np.empty((RESAMPLES, sizes))
  for row in rates:
    at = rng.integers(prompts, size=prompts)
    for size in range(sizes):
      own = rng.integers(seeds, size=seeds)
      index = np.ix_(own, at)
      row[size] = totals[size][index].sum() / counts[size][index].sum()
  return rates


def _fit_power(y, x, most: float):
  """a - b x^-c with b >= 0 and a at most `most`; c from a grid."""
  grid = np.geomspace(0.02, 3.0, _GRID)
  # Scaled by the least x, so that b is of the size of y.
  z = (x / x.min()) ** -grid[:, None]
  mean_z, mean_y = z.mean(1), y.mean(1, keepdims=True)
  apart = z - mean_z[:, None]
  b = -((y - mean_y) @ apart.T) / (apart**2).sum(1)
  b = np.maximum(b, 0.0)
  a = mean_y + b * mean_z
  capped = np.maximum((most - y) @ z.T / (z**2).sum(1), 0.0)
  b, a = np.where(a > most, capped, b), np.minimum(a, most)
  fitted = a[..., None] - b[..., None] * z
  place = ((fitted - y[:, None]) ** 2).sum(-1).argmin(1)
  rows = np.arange(len(y))
  c = grid[place]
  return np.stack([a[rows, place], b[rows, place] * x.min() ** c, c], 1)


def _power(parameters, x):
  a, b, c = parameters.T
  return a - b * x**-c


def _fit_saturating(y, x, most: float):
  """a x / (x + h) with a at most `most`; h from a grid."""
  grid = np.geomspace(x.min() * 1e-4, x.max() * 1e2, 4 * _GRID)
  w = x / (x + grid[:, None])
  a = np.minimum(y @ w.T / (w**2).sum(1), most)
  fitted = a[..., None] * w
  place = ((fitted - y[:, None]) ** 2).sum(-1).argmin(1)
  return np.stack([a[np.arange(len(y)), place], grid[place]], 1)


def _saturating(parameters, x):
  a, h = parameters.T
  return a * x / (x + h)


FORMS = {
  "a - b x^-c": Form(("a", "b", "c"), _fit_power, _power),
  "a x / (x + h)": Form(("a", "h"), _fit_saturating, _saturating),
}
