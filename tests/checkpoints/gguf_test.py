"""GGUF files: every type, every family, and damage of every kind."""

import dataclasses
import struct

import gguf
import jax
import ml_dtypes
import numpy as np
import pytest
from gguf.quants import dequantize, quantize

from specjax.checkpoints import CheckpointError, read_gguf
from specjax.checkpoints.gguf import half_split
from specjax.checkpoints.gguf_header import read_header
from specjax.checkpoints.gguf_rope import llama3_factors
from specjax.models.config import RopeScaling

Q = gguf.GGMLQuantizationType
Scaling = gguf.RopeScalingType
MADE = ("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0")
OTHERS = (
  "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "TQ1_0", "TQ2_0", "MXFP4",
  "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S", "IQ1_M",
  "IQ4_NL", "IQ4_XS", "NVFP4",
)  # fmt: skip


def same(found, expected):
  def check(a, b):
    assert type(a) is np.ndarray and a.flags.owndata and a.flags.writeable
    np.testing.assert_array_equal(a, b, strict=True)

  jax.tree.map(check, found, expected)


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize("tied", [True, False])
def test_families_heads_and_row_order(make_tiny, tmp_path, family, tied):
  tiny = make_tiny(family, tie_embeddings=tied)
  path = tiny.write_gguf(tmp_path / "tiny.gguf")
  config, params, metadata = read_gguf(path)
  assert config == tiny.config
  assert metadata["general.architecture"] == family
  same(params, tiny.tree())


def test_only_llama_rows_move(make_tiny, tmp_path):
  tiny = make_tiny("qwen2", head_dim=64, num_heads=6, num_kv_heads=3)
  path = tiny.write_gguf(tmp_path / "tiny.gguf")
  same(read_gguf(path)[1], tiny.tree())


def test_half_split_by_hand():
  rows = np.arange(12.0)[:, None]
  # Two heads of six rows: pairs (0, 1), (2, 3), (4, 5) in each.
  np.testing.assert_array_equal(
    half_split(rows, 2)[:, 0], [0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11]
  )


@pytest.mark.parametrize("kind", MADE)
def test_quantised_types(make_tiny, tmp_path, kind):
  tiny = make_tiny("qwen2")
  path = tiny.write_gguf(tmp_path / "tiny.gguf", kind)

  def expected(value):
    if kind == "F32" or value.ndim == 1:
      return value
    return dequantize(quantize(value, Q[kind]), Q[kind])

  same(read_gguf(path)[1], tiny.tree(expected))
  # Rounding to bfloat16 happens once, from the float32 value.
  same(
    read_gguf(path, "bfloat16")[1],
    tiny.tree(lambda value: expected(value).astype(ml_dtypes.bfloat16)),
  )


@pytest.mark.parametrize("kind", OTHERS)
def test_types_that_only_llama_cpp_writes(make_tiny, tmp_path, kind):
  tiny = make_tiny("qwen2")
  block, size = gguf.GGML_QUANT_SIZES[Q[kind]]
  packed = np.random.default_rng(1).integers(
    0, 256, (256, 256 // block * size), np.uint8
  )
  # Random bytes as scales may be infinite; the grids index safely.
  path = tiny.write_gguf(
    tmp_path / "tiny.gguf", raw={"blk.0.ffn_up.weight": (Q[kind], packed)}
  )
  with np.errstate(all="ignore"):
    expected = dequantize(packed, Q[kind])
  found = read_gguf(path)[1]["layers_0"]["mlp"]["up"]["kernel"]
  np.testing.assert_array_equal(found, expected)


def test_bfloat16_is_bit_exact(make_tiny, tmp_path):
  tiny = make_tiny("qwen2")
  bits = np.random.default_rng(2).integers(0, 2**16, (256, 256), np.uint16)
  raw = {"blk.1.ffn_gate.weight": (Q.BF16, bits.view(np.uint8))}
  path = tiny.write_gguf(tmp_path / "tiny.gguf", raw=raw)
  found = read_gguf(path, "bfloat16")[1]["layers_1"]["mlp"]["gate"]["kernel"]
  finite = ~np.isnan(bits.view(ml_dtypes.bfloat16).astype(np.float32))
  assert finite.mean() > 0.9
  np.testing.assert_array_equal(found.view(np.uint16)[finite], bits[finite])


@pytest.mark.parametrize(
  "head_dim,theta,scaling",
  [
    (128, 500000.0, RopeScaling()),
    (64, 500000.0, RopeScaling(factor=32.0)),
    (64, 10000.0, RopeScaling(4.0, 1.0, 2.5, 4096)),
  ],
)
def test_llama3_scaling_is_recovered(
  make_tiny, tmp_path, head_dim, theta, scaling
):
  tiny = make_tiny(head_dim=head_dim, rope_theta=theta)
  factors = llama3_factors(scaling, head_dim, theta).astype(np.float32)
  assert 1 == factors.min() < factors.max() == scaling.factor
  path = tiny.write_gguf(
    tmp_path / "tiny.gguf", extra={"rope_freqs.weight": factors}
  )
  config = read_gguf(path)[0]
  assert config.rope_scaling == scaling
  assert dataclasses.replace(config, rope_scaling=None) == tiny.config


def test_llama3_factors_are_those_of_the_reference():
  # Wavelengths against the cut-offs, as Llama's own reference code has it.
  scaling, theta = RopeScaling(), 500000.0
  for i, factor in enumerate(llama3_factors(scaling, 128, theta)):
    wave = 2 * np.pi * theta ** (2 * i / 128)
    smooth = (8192 / wave - 1) / 3
    mixed = 1 / ((1 - smooth) / 8 + smooth)
    expected = 1 if wave < 2048 else 8 if wave > 8192 else mixed
    np.testing.assert_allclose(factor, expected, rtol=1e-12)


@pytest.mark.parametrize(
  "kwargs,message",
  [
    ({"fields": {"rope_scaling_type": Scaling.YARN}}, "'yarn'"),
    ({"fields": {"rope_scaling_type": Scaling.LINEAR}}, "'linear'"),
    ({"fields": {"rope_dimension_count": 16}}, "rope over 16 of 32"),
    ({"fields": {"expert_count": 4}}, "experts"),
    ({"extra": {"blk.0.odd.weight": np.ones(3, np.float32)}}, "blk.0.odd"),
    ({"extra": {"rope_freqs.weight": np.arange(1, 17, dtype=np.float32)}},
     "llama3 factors"),
  ],
)  # fmt: skip
def test_refused(make_tiny, tmp_path, kwargs, message):
  path = make_tiny().write_gguf(tmp_path / "tiny.gguf", **kwargs)
  with pytest.raises(CheckpointError, match=message) as caught:
    read_gguf(path)
  assert "\n" not in str(caught.value)


def test_missing_tensor_wrong_shape_and_other_architectures(
  make_tiny, tmp_path
):
  tiny = make_tiny()
  del tiny.tensors["model.layers.1.mlp.up_proj.weight"]
  path = tiny.write_gguf(tmp_path / "missing.gguf")
  with pytest.raises(CheckpointError, match=r"lacks blk\.1\.ffn_up\.weight"):
    read_gguf(path)
  tiny = make_tiny()
  tiny.tensors["model.norm.weight"] = np.ones(8, np.float32)
  path = tiny.write_gguf(tmp_path / "shape.gguf")
  with pytest.raises(CheckpointError, match=r"output_norm.*\(8,\).*\(256,\)"):
    read_gguf(path)
  tiny = make_tiny()
  tiny.family = "mamba"
  path = tiny.write_gguf(tmp_path / "mamba.gguf")
  with pytest.raises(CheckpointError, match="'mamba' is not supported"):
    read_gguf(path)
  with pytest.raises(CheckpointError, match="float32 or bfloat16"):
    read_gguf(path, "float16")


def header(num_tensors=0, num_fields=0, rest=b"", version=3):
  return b"GGUF" + struct.pack("<IQQ", version, num_tensors, num_fields) + rest


def string(text):
  return struct.pack("<Q", len(text)) + text


HOSTILE = {
  "empty": b"",
  "not gguf": b"PK\x03\x04" + bytes(100),
  "version 1": header(version=1),
  "big-endian": header(version=3 << 24),
  "many fields": header(num_fields=2**63),
  "many tensors": header(num_tensors=2**64 - 1),
  "long key": header(num_fields=1, rest=struct.pack("<Q", 2**62)),
  "long array": header(
    num_fields=1, rest=string(b"k") + struct.pack("<IIQ", 9, 0, 2**60)
  ),
  "many strings": header(
    num_fields=1, rest=string(b"k") + struct.pack("<IIQ", 9, 8, 2**40)
  ),
  "nested arrays": header(
    num_fields=1, rest=string(b"k") + struct.pack("<IIQ", 9, 9, 2**20)
  ),
  "unknown type": header(num_fields=1, rest=string(b"k") + bytes([99] * 8)),
  "bad utf-8": header(
    num_fields=1, rest=string(b"\xff\xfe") + struct.pack("<IB", 0, 1)
  ),
  "same key": header(
    num_fields=2, rest=(string(b"k") + struct.pack("<IB", 0, 1)) * 2
  ),
  "zero alignment": header(
    num_fields=1, rest=string(b"general.alignment") + struct.pack("<II", 4, 0)
  ),
  "huge tensor": header(
    num_tensors=1,
    rest=string(b"t") + struct.pack("<IQQIQ", 2, 2**40, 2**40, 0, 0),
  ),
  "far tensor": header(
    num_tensors=1, rest=string(b"t") + struct.pack("<IQIQ", 1, 4, 0, 2**63)
  ),
  "many dimensions": header(
    num_tensors=1, rest=string(b"t") + struct.pack("<I", 2**31)
  ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_headers(tmp_path, name):
  path = tmp_path / "bad.gguf"
  path.write_bytes(HOSTILE[name])
  with pytest.raises(CheckpointError, match="bad.gguf") as caught:
    read_gguf(path)
  assert "\n" not in str(caught.value)


def test_hostile_sizes_in_the_metadata(make_tiny, tmp_path):
  sizes = {"num_layers": 2**31, "intermediate_size": 2**31, "head_dim": 2**31}
  for field, value in sizes.items():
    tiny = make_tiny()
    tiny.config = dataclasses.replace(tiny.config, **{field: value})
    path = tiny.write_gguf(tmp_path / f"{field}.gguf")
    with pytest.raises(CheckpointError):
      read_gguf(path)


def test_truncations_and_flips(make_tiny, tmp_path):
  """Any damage is refused in one line, or leaves a file that still loads."""
  good = make_tiny().write_gguf(tmp_path / "good.gguf", "Q8_0").read_bytes()
  rng = np.random.default_rng(3)
  path = tmp_path / "bad.gguf"
  for size in rng.integers(0, len(good), 24):
    path.write_bytes(good[:size])
    with pytest.raises(CheckpointError) as caught:
      read_gguf(path)
    assert "\n" not in str(caught.value)
  refused = 0
  # The first 2,500 bytes are the header, where flips hurt.
  for offset in rng.integers(0, 2500, 60):
    damaged = bytearray(good)
    damaged[offset] ^= 1 << rng.integers(8)
    path.write_bytes(damaged)
    try:
      read_gguf(path)
    except CheckpointError as error:
      refused += 1
      assert "\n" not in str(error)
  assert refused > 30


def test_header_agrees_with_the_gguf_package(make_tiny, tmp_path):
  path = make_tiny().write_gguf(
    tmp_path / "tiny.gguf",
    fields={
      "token_list": ["a", "é", ""],
      "token_scores": [0.5, -1.0, 2.0],
      "token_types": [1, 3, 4],
      "add_bos_token": True,
      "languages": ["en"],
    },
  )
  ours, theirs = read_header(path), gguf.GGUFReader(path)
  expected = {
    name: field.contents()
    for name, field in theirs.fields.items()
    if not name.startswith("GGUF.")
  }
  found = {
    key: value.tolist() if isinstance(value, np.ndarray) else value
    for key, value in ours.metadata.items()
  }
  assert found == expected
  assert list(ours.tensors) == [tensor.name for tensor in theirs.tensors]
  for tensor in theirs.tensors:
    assert ours.tensors[tensor.name].shape == tuple(tensor.shape.tolist()[::-1])
    np.testing.assert_array_equal(
      ours.tensors[tensor.name].data, tensor.data.reshape(-1).view(np.uint8)
    )
