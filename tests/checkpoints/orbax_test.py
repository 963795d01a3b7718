"""Saving and restoring through orbax."""

import dataclasses
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specjax.checkpoints import (
  CheckpointError,
  load,
  restore_tree,
  save_checkpoint,
  save_tree,
)
from specjax.models.config import RopeScaling


def same(found, expected):
  jax.tree.map(
    lambda a, b: np.testing.assert_array_equal(a, b, strict=True),
    found,
    expected,
  )


class FakeTokenizer:
  """Saves one file."""

  def save(self, folder):
    (folder / "tokenizer.json").write_text("{}")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_saved_decoder_loads_by_path(make_tiny, tmp_path, dtype):
  tiny = make_tiny("qwen3", rope_scaling=RopeScaling(), dtype=dtype)
  params = tiny.tree(lambda value: value.astype(jnp.dtype(dtype)))
  save_checkpoint(tmp_path / "a/b", tiny.config, params, FakeTokenizer())
  assert os.listdir(tmp_path / "a") == ["b"]
  checkpoint = load(tmp_path / "a/b", dtype)
  assert checkpoint.config == tiny.config
  assert (checkpoint.tokenizer_source / "tokenizer.json").is_file()
  same(checkpoint.params, params)
  other = load(tmp_path / "a/b", "bfloat16")
  assert other.config.dtype == "bfloat16"
  same(other.params, tiny.tree(lambda v: v.astype(jnp.bfloat16)))


def test_refused(make_tiny, tmp_path):
  tiny = make_tiny()
  params = tiny.tree()
  save_checkpoint(tmp_path / "a", tiny.config, params)
  with pytest.raises(CheckpointError, match="exists"):
    save_checkpoint(tmp_path / "a", tiny.config, params)
  half = dataclasses.replace(tiny.config, dtype="bfloat16")
  with pytest.raises(CheckpointError, match="config says bfloat16"):
    save_checkpoint(tmp_path / "b", half, params)
  del params["layers_1"]["mlp"]["up"]
  with pytest.raises(CheckpointError, match="lacks layers_1/mlp/up/kernel"):
    save_checkpoint(tmp_path / "b", tiny.config, params)
  with pytest.raises(CheckpointError, match="cannot save"):
    save_checkpoint("/dev/null/x", tiny.config, tiny.tree())
  assert os.listdir(tmp_path) == ["a"]
  text = (tmp_path / "a/specjax.json").read_text()
  (tmp_path / "a/specjax.json").write_text(text.replace('t": 1', 't": 2'))
  with pytest.raises(CheckpointError, match="format 2"):
    load(tmp_path / "a")


def test_a_failed_save_leaves_nothing(make_tiny, tmp_path):
  class Broken(FakeTokenizer):
    def save(self, folder):
      raise OSError("disk full")

  tiny = make_tiny()
  with pytest.raises(CheckpointError, match="disk full"):
    save_checkpoint(tmp_path / "a", tiny.config, tiny.tree(), Broken())
  assert os.listdir(tmp_path) == []


def test_restore_onto_other_devices(tmp_path):
  devices = np.array(jax.devices())
  spec = jax.sharding.PartitionSpec("x")

  def layout(count):
    mesh = jax.sharding.Mesh(devices[:count], "x")
    return jax.sharding.NamedSharding(mesh, spec)

  value = np.arange(64, dtype=np.float32).reshape(8, 8)
  save_tree(tmp_path / "t", {"w": jax.device_put(value, layout(8))})
  like = jax.ShapeDtypeStruct((8, 8), jnp.float32, sharding=layout(4))
  restored = restore_tree(tmp_path / "t", {"w": like})["w"]
  assert restored.sharding == layout(4)
  np.testing.assert_array_equal(restored, value)


@pytest.mark.parametrize(
  "like,match",
  [
    ({"x": np.zeros((2, 3), np.float32)}, "lacks x"),
    ({"w": np.zeros((3, 2), np.float32)}, r"shape \(2, 3\)"),
    ({"w": np.zeros((2, 3), np.int32)}, "is float32, int32 was expected"),
  ],
)
def test_restore_refuses_another_tree(tmp_path, like, match):
  save_tree(tmp_path / "t", {"w": np.ones((2, 3), np.float32)})
  with pytest.raises(CheckpointError, match=match):
    restore_tree(tmp_path / "t", like)
  with pytest.raises(CheckpointError, match="there is no checkpoint"):
    restore_tree(tmp_path / "u", like)
  with pytest.raises(CheckpointError, match="exists"):
    save_tree(tmp_path / "t", like)
