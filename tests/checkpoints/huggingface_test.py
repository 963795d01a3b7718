"""Hugging Face folders: families, shards, rope settings, and damage."""

import json
import struct

import jax
import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from specjax.checkpoints import CheckpointError, load, read_huggingface
from specjax.models.config import RopeScaling

LLAMA3 = {
  "rope_type": "llama3",
  "factor": 32.0,
  "low_freq_factor": 1.0,
  "high_freq_factor": 4.0,
  "original_max_position_embeddings": 8192,
}


def same(found, expected):
  jax.tree.map(
    lambda a, b: np.testing.assert_array_equal(a, b, strict=True),
    found,
    expected,
  )


def refused(path, match):
  with pytest.raises(CheckpointError, match=match) as caught:
    read_huggingface(path)
  assert "\n" not in str(caught.value)


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize("tied", [True, False])
def test_families_and_heads(make_tiny, tmp_path, family, tied):
  tiny = make_tiny(family, tie_embeddings=tied)
  config, params = read_huggingface(tiny.write_folder(tmp_path))
  assert config == tiny.config
  same(params, tiny.tree())


def test_bfloat16_is_bit_exact(make_tiny, tmp_path):
  tiny = make_tiny()
  rng = np.random.default_rng(0)
  for name, value in tiny.tensors.items():
    bits = rng.integers(0, 2**16, value.shape, np.uint16)
    tiny.tensors[name] = bits.view(ml_dtypes.bfloat16)
  tiny.write_folder(tmp_path)
  config, params = read_huggingface(tmp_path, "bfloat16")
  assert config.dtype == "bfloat16"
  bits = tiny.tree(lambda value: value.view(np.uint16))
  same(jax.tree.map(lambda value: value.view(np.uint16), params), bits)
  # Widening is exact: the upper half of each float32.
  wide = jax.tree.leaves(read_huggingface(tmp_path, "float32")[1])
  for value, expected in zip(wide, jax.tree.leaves(bits), strict=True):
    finite = np.isfinite(value)
    halves = (value.view(np.uint32) >> 16).astype(np.uint16)
    np.testing.assert_array_equal(halves[finite], expected[finite])


def test_float16_is_converted(make_tiny, tmp_path):
  tiny = make_tiny()
  for name, value in tiny.tensors.items():
    tiny.tensors[name] = value.astype(np.float16)
  params = read_huggingface(tiny.write_folder(tmp_path))[1]
  same(params, tiny.tree(lambda value: value.astype(np.float32)))


def write_shards(tiny, folder, count=3):
  tiny.write_folder(folder)
  (folder / "model.safetensors").unlink()
  names, index = list(tiny.tensors), {}
  for i in range(count):
    file = f"model-{i + 1:05}-of-{count:05}.safetensors"
    part = {name: tiny.tensors[name] for name in names[i::count]}
    save_file(part, folder / file)
    index |= dict.fromkeys(part, file)
  text = json.dumps({"metadata": {}, "weight_map": index})
  (folder / "model.safetensors.index.json").write_text(text)
  return folder


def test_shards(make_tiny, tmp_path):
  tiny = make_tiny()
  write_shards(tiny, tmp_path)
  same(read_huggingface(tmp_path)[1], tiny.tree())
  (tmp_path / "model-00002-of-00003.safetensors").unlink()
  refused(tmp_path, "names model-00002-of-00003.safetensors, which is missing")


def test_an_index_cannot_leave_its_folder(make_tiny, tmp_path):
  folder = write_shards(make_tiny(), tmp_path / "model")
  index = folder / "model.safetensors.index.json"
  index.write_text(json.dumps({"weight_map": {"a": "../other.safetensors"}}))
  refused(folder, "no sound weight_map")


def test_one_file_by_path(make_tiny, tmp_path):
  tiny = make_tiny()
  file = tiny.write_folder(tmp_path) / "model.safetensors"
  checkpoint = load(file)
  assert checkpoint.path == file and checkpoint.tokenizer_source == tmp_path
  same(checkpoint.params, tiny.tree())


@pytest.mark.parametrize(
  "changes,expected",
  [
    ({"rope_scaling": None}, None),
    ({"rope_scaling": {"rope_type": "default"}}, None),
    ({"rope_scaling": LLAMA3}, RopeScaling(factor=32.0)),
    ({"rope_parameters": LLAMA3 | {"rope_theta": 10000.0}},
     RopeScaling(factor=32.0)),
  ],
)  # fmt: skip
def test_rope_settings(make_tiny, tmp_path, changes, expected):
  make_tiny().write_folder(tmp_path, **changes)
  assert read_huggingface(tmp_path)[0].rope_scaling == expected


def test_rope_theta_of_newer_configs(make_tiny, tmp_path):
  rope = {"rope_type": "default", "rope_theta": 5e5}
  make_tiny().write_folder(tmp_path, rope_theta=None, rope_parameters=rope)
  assert read_huggingface(tmp_path)[0].rope_theta == 5e5


def test_absent_head_dim_and_kv_heads_have_their_meaning(make_tiny, tmp_path):
  tiny = make_tiny(num_kv_heads=8)
  tiny.write_folder(tmp_path, head_dim=None, num_key_value_heads=None)
  assert read_huggingface(tmp_path)[0] == tiny.config


@pytest.mark.parametrize(
  "changes,match",
  [
    ({"model_type": "mamba"}, "'mamba' is not supported"),
    ({"model_type": None}, "None is not supported"),
    ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "'yarn'"),
    ({"rope_scaling": {"type": "linear", "factor": 4.0}}, "'linear'"),
    ({"rope_parameters": {"rope_type": "longrope"}}, "'longrope'"),
    ({"rope_scaling": {"rope_type": "llama3"}}, "lacks 'factor'"),
    ({"use_sliding_window": True}, "use_sliding_window"),
    ({"attention_bias": True}, "attention_bias"),
    ({"mlp_bias": True}, "mlp_bias"),
    ({"hidden_act": "gelu"}, "'gelu'"),
    ({"quantization_config": {"bits": 4}}, "quantization_config"),
    ({"hidden_size": "big"}, "hidden_size must be an integer"),
    ({"num_hidden_layers": 0}, "num_layers is 0"),
    ({"num_hidden_layers": 2**40}, "states 1099511627776 layers"),
    ({"num_key_value_heads": 3}, "do not divide"),
    ({"num_hidden_layers": 1}, "model.layers.1.*does not have"),
    ({"num_hidden_layers": 3}, r"lacks model\.layers\.2\."),
    ({"vocab_size": 47}, r"embed_tokens.*\(48, 256\).*\(47, 256\)"),
    ({"tie_word_embeddings": False}, "lacks lm_head.weight.*tie_word"),
  ],
)
def test_refused_configs(make_tiny, tmp_path, changes, match):
  refused(make_tiny().write_folder(tmp_path, **changes), match)


def test_refused_files(make_tiny, tmp_path):
  refused(tmp_path, "config.json")
  folder = make_tiny().write_folder(tmp_path)
  file = folder / "model.safetensors"
  good = file.read_bytes()
  file.unlink()
  refused(folder, "holds neither")
  save_file({"a": np.zeros(3, np.int8)}, file)
  refused(folder, "type I8")
  for size in np.random.default_rng(1).integers(0, len(good), 20):
    file.write_bytes(good[:size])
    refused(folder, "not a sound safetensors file")
  file.write_bytes(struct.pack("<Q", 2**62) + good[8:])
  refused(folder, "not a sound safetensors file")
  (folder / "config.json").write_text("[" * 100000)
  refused(folder, "config.json")
  (folder / "config.json").write_text("[]")
  refused(folder, "JSON object")


def test_flipped_header_bytes(make_tiny, tmp_path):
  folder = make_tiny().write_folder(tmp_path)
  file = folder / "model.safetensors"
  good = file.read_bytes()
  rng = np.random.default_rng(2)
  refusals = 0
  for offset in rng.integers(0, 1500, 60):
    damaged = bytearray(good)
    damaged[offset] ^= 1 << rng.integers(8)
    file.write_bytes(damaged)
    try:
      read_huggingface(folder)
    except CheckpointError as error:
      refusals += 1
      assert "\n" not in str(error)
  assert refusals > 30


def test_a_tied_head_may_be_stored_twice(make_tiny, tmp_path):
  tiny = make_tiny()
  expected = tiny.tree()
  tiny.tensors["lm_head.weight"] = tiny.tensors["model.embed_tokens.weight"]
  same(read_huggingface(tiny.write_folder(tmp_path))[1], expected)
