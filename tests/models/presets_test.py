"""Presets have the published numbers of parameters."""

import math

import jax
import pytest

from specjax.models import presets
from specjax.models.decoder import Transformer

# Totals of the safetensors files of the repositories in `SOURCES`, as the Hub
# shows them, a tied head counted once. The files of Qwen3 0.6B and 1.7B hold
# the tied head as well; for them the total is non-embedding parameters (0.44
# and 1.4 billion in the model cards) plus 151,936 rows of embeddings.
PUBLISHED = {
  "smollm2-135m": 134_515_008,
  "smollm2-360m": 361_821_120,
  "smollm2-1.7b": 1_711_376_384,
  "llama-2-7b": 6_738_415_616,
  "llama-3-8b": 8_030_261_248,
  "llama-3.1-8b": 8_030_261_248,
  "llama-3.2-1b": 1_235_814_400,
  "llama-3.2-3b": 3_212_749_824,
  "qwen2.5-0.5b": 494_032_768,
  "qwen2.5-1.5b": 1_543_714_304,
  "qwen2.5-3b": 3_085_938_688,
  "qwen2.5-7b": 7_615_616_512,
  "qwen2.5-14b": 14_770_033_664,
  "qwen2.5-32b": 32_763_876_352,
  "qwen2.5-72b": 72_706_203_648,
  "qwen3-0.6b": 596_049_920,
  "qwen3-1.7b": 1_720_574_976,
  "qwen3-4b": 4_022_468_096,
  "qwen3-8b": 8_190_735_360,
  "qwen3-32b": 32_762_123_264,
}


def test_every_preset_has_a_source_and_a_count():
  assert set(presets.PRESETS) == set(presets.SOURCES) == set(PUBLISHED)


@pytest.mark.parametrize("name", PUBLISHED)
def test_number_of_parameters(name):
  params = Transformer(presets.PRESETS[name]).abstract_params()
  count = sum(math.prod(x.shape) for x in jax.tree.leaves(params))
  assert count == PUBLISHED[name]


def test_names():
  small = presets.PRESETS["smollm2-135m"]
  assert presets.preset("SmolLM2-135M-Instruct") == small
  with pytest.raises(ValueError, match="no preset 'gpt-2': choose one of smol"):
    presets.preset("gpt-2")
