"""Which model made something: told by its weights, not by its name."""

import hashlib
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from specjax.checkpoints.loaded import LoadedModel

_LOOKED_AT = 64  # values of each array


def identify(target: LoadedModel) -> dict[str, Any]:
  """{"name", "dtype", "vocab_size", "sha256"} of a model.

  The hash covers its configuration and, of every array of weights, the path,
  the shape and the first values: what a fine-tune changes, it changes there.
  """
  digest = hashlib.sha256(repr(target.model).encode())
  for path, leaf in jax.tree_util.tree_leaves_with_path(target.params):
    first = np.asarray(leaf.reshape(-1)[:_LOOKED_AT], np.float32)
    digest.update(f"{jax.tree_util.keystr(path)} {leaf.shape}".encode())
    digest.update(first.tobytes())
  return {
    "name": target.name,
    "dtype": target.dtype,
    "vocab_size": target.model.vocab_size,
    "sha256": digest.hexdigest()[:16],
  }


def same_model(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
  """Whether two descriptions of `identify` are of one model, however named."""
  return {**a, "name": None} == {**b, "name": None}
