"""Logits agree with transformers' on the same weights, within 1e-3."""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specjax import checkpoints

DATA = pathlib.Path(__file__).resolve().parents[1] / "data"
CASES = sorted(path.name for path in (DATA / "hf").iterdir())


@pytest.mark.parametrize("case", CASES)
def test_tiny_decoders(case, make_lab):
  loaded = checkpoints.load(DATA / "hf" / case)
  lab = make_lab(loaded.config, loaded.params)
  with np.load(DATA / "hf" / case / "expected.npz") as expected:
    ids, logits = jnp.asarray(expected["ids"]), expected["logits"]
  np.testing.assert_allclose(lab.full(ids).logits, logits, atol=1e-3, rtol=0)
  _, cache = lab.append(lab.model.init_cache(2, 64), ids[:, :30])
  out, cache = lab.append(cache, ids[:, 30:39])
  np.testing.assert_allclose(out.logits, logits[:, 30:39], atol=1e-3, rtol=0)
  out, _ = lab.append(cache, ids[:, 39:])
  np.testing.assert_allclose(out.logits, logits[:, 39:], atol=1e-3, rtol=0)


@pytest.fixture(scope="module")
def default_lab(make_lab):
  loaded = checkpoints.load()
  return make_lab(loaded.config, jax.device_put(loaded.params))


@pytest.mark.parametrize("prompt", ["sentence", "code", "long"])
def test_default_model(prompt, default_lab):
  """The last positions in one chunk after the rest is cached."""
  with np.load(DATA / "default_model_logits.npz") as data:
    ids = jnp.asarray(data[f"{prompt}/ids"])[None]
    top_ids, top = data[f"{prompt}/top_ids"], data[f"{prompt}/top_logits"]
    fixed_ids, fixed = data["fixed_ids"], data[f"{prompt}/fixed_logits"]
  last, capacity = len(top), 1024
  cache = default_lab.model.init_cache(1, capacity)
  # One compiled prefill serves every prompt: the pad is not committed.
  before = ids.shape[1] - last
  padded = jnp.pad(ids[:, :before], ((0, 0), (0, 528 - before)))
  _, cache = default_lab.append(cache, padded, [before])
  out, _ = default_lab.append(cache, ids[:, before:])
  logits = np.asarray(out.logits[0])
  ours = np.take_along_axis(logits, top_ids, axis=1)
  np.testing.assert_allclose(ours, top, atol=1e-3, rtol=0)
  np.testing.assert_allclose(logits[:, fixed_ids], fixed, atol=1e-3, rtol=0)
  np.testing.assert_array_equal(np.argmax(logits, axis=1), top_ids[:, 0])
