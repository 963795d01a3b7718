"""Checkpoints: which stay, what comes back, what is refused."""

import jax.numpy as jnp
import numpy as np
import pytest

from specjax.checkpoints.base import CheckpointError
from specjax.training.checkpoints import Checkpoints


def tree(value):
  return {"a": (jnp.full(2, value), np.asarray(value, np.int64))}


def test_the_last_ones_and_the_best_one_stay(tmp_path):
  kept = Checkpoints(tmp_path / "there", keep=2)
  assert kept.steps() == []
  for step, best in ((0, 0), (5, 5), (10, 5), (15, 5)):
    kept.save(step, tree(step), best)
  assert kept.steps() == [5, 10, 15]
  kept.save(20, tree(20), 20)
  assert kept.steps() == [15, 20]
  found = kept.restore(15, tree(0))
  assert isinstance(found["a"], tuple)
  assert isinstance(found["a"][1], np.ndarray) and found["a"][1] == 15
  np.testing.assert_array_equal(found["a"][0], [15, 15])


def test_what_a_kill_left_is_no_checkpoint(tmp_path):
  kept = Checkpoints(tmp_path)
  kept.save(1, tree(1), None)
  (tmp_path / "step_00000002.orbax-checkpoint-tmp-7").mkdir()
  assert kept.steps() == [1]
  kept.save(2, tree(2), None)
  assert {p.name for p in tmp_path.iterdir()} == {
    "step_00000001",
    "step_00000002",
  }


def test_another_training_is_refused(tmp_path):
  kept = Checkpoints(tmp_path)
  kept.save(1, tree(1), None)
  with pytest.raises(CheckpointError):
    kept.restore(1, {"a": (jnp.zeros(3), np.asarray(0, np.int64))})
  with pytest.raises(CheckpointError, match="no checkpoint"):
    kept.restore(7, tree(0))
  with pytest.raises(ValueError, match="keep must be"):
    Checkpoints(tmp_path, keep=0)
