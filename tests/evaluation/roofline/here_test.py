"""This machine as a device: rates that are rates, and the case that uses it."""

import jax
import pytest

from specjax.evaluation import timing
from specjax.evaluation.roofline import here


def test_rates_from_times(monkeypatch):
  """Medians of the fastest kernel, and of the product."""

  def turns(cases, repeats):
    assert repeats > 1 and len(cases) == 4
    slow = {name: [4.0, 2.0, 9.0] for name in cases}
    return {**slow, "read max": [0.1, 2.0, 0.5], "product": [3.0, 1.0, 2.0]}

  monkeypatch.setattr(timing, "take_turns", turns)
  found = here.measure(num_bytes=1 << 16, size=10)
  assert found.bandwidth == (1 << 16) / 0.5
  assert found.operations == 2 * 10**3 / 2.0
  assert found.memory > 1 << 28 and found.link == 0
  assert jax.devices()[0].device_kind in found.source


def test_a_case_here(ask, monkeypatch):
  device = here.Device(1e12, 2e10, 1e11, 0.0, "measured on a toy")
  monkeypatch.setattr(here, "measure", lambda: device)
  asked = ask(device="here", target="smollm2-135m", drafters=("ngram",))
  case = asked.case
  assert case.device == device and asked.measured == "here"
  assert (case.setup.bandwidth_share, case.setup.operations_share) == (1, 1)
  assert case.setup.weight_bits == case.setup.cache_bits == 32  # on a CPU
  assert asked.reached.bandwidth_share == 0.8
  assert "h100" in asked.devices
  with pytest.raises(ValueError, match="2 chips need a device with links"):
    ask(device="here", chips=2)
