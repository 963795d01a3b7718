"""Configurations of decoders and of EAGLE, through JSON and back."""

import dataclasses
import json

import pytest

from specjax.models.config import DecoderConfig, RopeScaling
from specjax.models.eagle_config import EagleConfig, config_for
from specjax.models.presets import preset

LLAMA = preset("llama-3.2-1b")
EAGLE = config_for(LLAMA, draft_vocab_size=100, fc_norm=True)


def through_json(config, **changes):
  stated = json.loads(json.dumps(dataclasses.asdict(config))) | changes
  return {k: v for k, v in stated.items() if v != "missing"}


@pytest.mark.parametrize(
  "config",
  [
    dataclasses.replace(LLAMA, rope_scaling=RopeScaling(factor=2.0)),
    dataclasses.replace(LLAMA, rope_scaling=None, head_size=7),
    EAGLE,
    config_for(LLAMA, version=1),
  ],
)
def test_a_config_comes_back(config):
  stated = through_json(config)
  found = type(config).from_json(stated)
  assert found == config and hash(found) == hash(config)
  assert stated == through_json(config)  # it was read, not changed


def test_another_dtype():
  assert LLAMA.dtype == "float32"
  read = DecoderConfig.from_json(through_json(LLAMA), "bfloat16")
  assert read == dataclasses.replace(LLAMA, dtype="bfloat16")
  layer = EagleConfig.from_json(through_json(EAGLE), "bfloat16").layer
  assert layer == dataclasses.replace(EAGLE.layer, dtype="bfloat16")


@pytest.mark.parametrize(
  "config, changes, error",
  [
    (LLAMA, {"vocab_size": "missing"}, TypeError),
    (LLAMA, {"width": 3}, TypeError),
    (LLAMA, {"head_dim": 3}, ValueError),
    (LLAMA, {"rope_scaling": {"rope_type": "yarn"}}, TypeError),
    (EAGLE, {"layer": "missing"}, KeyError),
    (EAGLE, {"taps": []}, ValueError),
  ],
)
def test_what_is_refused(config, changes, error):
  with pytest.raises(error):
    type(config).from_json(through_json(config, **changes))
