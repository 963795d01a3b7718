"""Whole laws of stored features are those that the target states."""

import jax
import numpy as np
import pytest

from specjax.training.data import Batches, Labelling, cover
from specjax.training.teacher import dense
from specjax.training.whole_laws import WholeLaws


def test_they_are_the_targets(net, texts, tmp_path):
  labelling = Labelling(5, ("hidden", "layer_0"), "float32", "float32", 96)
  store = cover(net, texts, tmp_path / "store", labelling)
  batches = Batches([store], batch=4, length=16, side="all")
  batch = WholeLaws(batches, net.params, ("layer_0",))(3)
  size = net.model.vocab_size
  assert batch.teacher.ids.shape == (4, 16, size)
  assert set(batch.features) == {"layer_0"}
  stored = batches(3)
  np.testing.assert_array_equal(batch.tokens, stored.tokens)
  np.testing.assert_array_equal(batch.mask, stored.mask)
  laws = np.exp(dense(batch.teacher, size))[stored.mask]
  assert laws.sum(-1) == pytest.approx(1.0, abs=1e-5)
  ids = np.asarray(stored.teacher.ids)[stored.mask]
  np.testing.assert_allclose(
    np.take_along_axis(laws, ids, -1),
    np.exp(stored.teacher.log_probs)[stored.mask],
    rtol=1e-4,
  )
  # The likeliest comes first.
  first = np.asarray(batch.teacher.ids)[stored.mask][:, 0]
  np.testing.assert_array_equal(first, laws.argmax(-1))
  assert jax.tree.leaves(batch.features)[0].shape[:2] == (4, 16)
