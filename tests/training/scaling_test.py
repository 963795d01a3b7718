"""Curves of acceptance: the right form is found, and what it says far out."""

import numpy as np
import pytest

from specjax.training import scaling

X = np.asarray([1e4, 3e4, 1e5, 3e5])


def _table(rates, seeds=3, prompts=40, noise=0.0):
  """(totals, counts) of rates by size, prompts unlike one another."""
  rng = np.random.default_rng(0)
  counts = rng.integers(20, 100, prompts)
  own = rng.normal(0, 0.05, prompts)
  own -= (own * counts).sum() / counts.sum()
  shape = (len(rates), seeds, prompts)
  each = np.asarray(rates)[:, None, None] + own + rng.normal(0, noise, shape)
  counts = np.broadcast_to(counts, shape).astype(float)
  return each * counts, counts


@pytest.mark.parametrize(
  "form, rates",
  [
    ("a - b x^-c", 0.7 - 4.0 * X**-0.3),
    ("a x / (x + h)", 0.6 * X / (X + 2e4)),
  ],
)
def test_the_form_that_made_the_points_is_found(form, rates):
  found = scaling.extrapolate(X.tolist(), *_table(rates))
  assert found["form"] == form and found["residual"] < 1e-3
  assert found["tokens"] == 3e6
  truth = 0.7 - 4.0 * 3e6**-0.3 if form[2] == "-" else 0.6 * 3e6 / (3e6 + 2e4)
  assert found["value"] == pytest.approx(truth, abs=2e-3)
  assert found["low"] < truth < found["high"]
  # Prompts differ by more than what is gained, and are the same for all sizes.
  gain = found["gain"]
  assert gain["estimate"] == pytest.approx(truth - rates[-1], abs=2e-3)
  assert gain["high"] - gain["low"] < found["high"] - found["low"]
  assert set(found["forms"]) == set(scaling.FORMS)
  np.testing.assert_allclose(scaling.curve(found, X), rates, atol=1e-3)


def test_noise_widens_the_forecast():
  rates = 0.7 - 4.0 * X**-0.3
  calm = scaling.extrapolate(X.tolist(), *_table(rates, noise=0.01))
  loud = scaling.extrapolate(X.tolist(), *_table(rates, noise=0.2))
  width = {id(f): f["high"] - f["low"] for f in (calm, loud)}
  assert width[id(calm)] < width[id(loud)]
  assert loud["high"] <= 1.0


def test_a_form_that_nothing_tests_is_not_taken():
  found = scaling.extrapolate(
    X[:3].tolist(), *_table(0.7 - 4.0 * X[:3] ** -0.3)
  )
  assert found["form"] == "a x / (x + h)"
  with pytest.raises(ValueError, match="three sizes of data, got 2"):
    scaling.extrapolate(X[:2].tolist(), *_table(X[:2] * 0))


def test_more_data_never_promises_less_or_more_than_everything():
  falling = scaling.extrapolate(
    X.tolist(), *_table(np.asarray([0.5, 0.49, 0.5, 0.48]))
  )
  power = falling["forms"]["a - b x^-c"]
  assert power["parameters"]["b"] >= 0
  rising = scaling.extrapolate(
    X.tolist(), *_table(np.asarray([0.5, 0.7, 0.9, 0.99]))
  )
  assert all(form["value"] <= 1 for form in rising["forms"].values())
