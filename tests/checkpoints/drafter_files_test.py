"""Trained drafters on disk: what is written comes back, at each storage."""

import dataclasses
import json
import os

import numpy as np
import pytest

from specjax.checkpoints import CheckpointError
from specjax.checkpoints.drafter_files import (
  CONFIG,
  WEIGHTS,
  DrafterFile,
  read_drafter,
  save_drafter,
)


def _drafter():
  draws = np.random.default_rng(0)

  def kernel(*shape):
    return draws.normal(size=shape).astype(np.float32)

  params = {
    "fc": {"kernel": kernel(6, 8)},
    "stack": kernel(3, 4, 8),
    "norm": {"scale": kernel(8)},
    "zero": np.zeros((2, 8), np.float32),
  }
  return DrafterFile(
    kind="eagle3",
    settings={"taps": ["layer_1"], "hidden": 8},
    target="tiny",
    target_sizes=(32, 8),
    params=params,
    token_ids=np.array([1, 5, 31]),
    notes={"acceptance": 0.5},
  )


@pytest.mark.parametrize("storage", ["float32", "bfloat16", "int8"])
def test_reads_back_to_half_a_step_of_the_storage(tmp_path, storage):
  drafter = _drafter()
  save_drafter(tmp_path / "it", drafter, storage)
  found = read_drafter(tmp_path / "it")
  for field in ("kind", "target", "target_sizes", "settings", "notes"):
    assert getattr(found, field) == getattr(drafter, field)
  np.testing.assert_array_equal(found.token_ids, drafter.token_ids)
  flat = {"fc": ("fc", "kernel"), "norm": ("norm", "scale")}
  for name in ("fc", "norm", "stack", "zero"):
    old, new = drafter.params, found.params
    for key in flat.get(name, (name,)):
      old, new = old[key], new[key]
    assert new.dtype == np.float32
    largest = np.abs(old).max(-1, keepdims=True)
    step = {"float32": 0, "bfloat16": np.abs(old) / 2**8, "int8": largest / 254}
    error = 0 if old.ndim == 1 else step[storage]
    assert np.all(np.abs(new - old) <= error * 1.0001)


def test_int8_takes_a_quarter(tmp_path):
  drafter = dataclasses.replace(
    _drafter(), params={"w": np.ones((256, 1024), np.float32)}
  )
  for storage in ("float32", "int8"):
    save_drafter(tmp_path / storage, drafter, storage)
  whole, small = (
    (tmp_path / storage / WEIGHTS).stat().st_size
    for storage in ("float32", "int8")
  )
  assert small < 0.26 * whole


def test_refusals_are_one_line(tmp_path):
  save_drafter(tmp_path / "it", _drafter(), "int8")
  with pytest.raises(CheckpointError, match="exists"):
    save_drafter(tmp_path / "it", _drafter(), "int8")
  with pytest.raises(CheckpointError, match="storage must be one of"):
    save_drafter(tmp_path / "other", _drafter(), "int4")
  with pytest.raises(CheckpointError, match="no trained drafter"):
    read_drafter(tmp_path)
  weights = tmp_path / "it" / WEIGHTS
  weights.write_bytes(weights.read_bytes()[:-8])
  with pytest.raises(CheckpointError, match="cannot read"):
    read_drafter(tmp_path / "it")


def test_another_format_is_refused(tmp_path):
  save_drafter(tmp_path / "it", _drafter(), "float32")
  config = tmp_path / "it" / CONFIG
  text = json.loads(config.read_text())
  for change in ({"format": 2}, {"target_sizes": 3}):
    config.write_text(json.dumps(text | change))
    with pytest.raises(CheckpointError, match=r"drafter\.json"):
      read_drafter(tmp_path / "it")


def test_others_may_read_it_as_the_umask_says(tmp_path):
  closed = os.umask(0o027)
  try:
    save_drafter(tmp_path / "it", _drafter(), "float32")
  finally:
    os.umask(closed)
  assert (tmp_path / "it").stat().st_mode & 0o777 == 0o750
  for name in (CONFIG, WEIGHTS):
    assert (tmp_path / "it" / name).stat().st_mode & 0o777 == 0o640
