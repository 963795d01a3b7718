"""A model ready to run: module, weights on the device, tokenizer."""

import ctypes
import dataclasses
import os
from typing import Any

import jax
from jaxtyping import PyTree

from specjax import checkpoints
from specjax.checkpoints.names import DEFAULT, Source
from specjax.models.decoder import Transformer
from specjax.text import Tokenizer
from specjax.types import Model


@dataclasses.dataclass(frozen=True, eq=False)
class LoadedModel:
  """A target, or a draft; compared by identity.

  Attributes:
    name: as it was asked for.
    model: what runs, hashable.
    params: its weights, on the device.
    tokenizer: None where prompts can only be token ids.
    dtype: of the weights.
  """

  name: str
  model: Model
  params: PyTree
  tokenizer: Tokenizer | None = None
  dtype: str = "float32"


def load_model(
  name: str | os.PathLike[str] | Source = DEFAULT, dtype: Any = None
) -> LoadedModel:
  """Loads a model by name, fetching its files first where need be.

  Args:
    name: "smollm2-135m" (the default), a local folder or file, or a repository
      of the Hugging Face Hub; see `specjax.checkpoints.resolve`.
    dtype: of the weights, "float32" or "bfloat16". None is float32 on CPU,
      bfloat16 on accelerators; logits are float32 in any case.

  Raises:
    CheckpointError: unknown, unreachable, unsound or unsupported.
    TextError: a tokenizer that cannot be read.
  """
  if dtype is None:
    on_cpu = jax.default_backend() == "cpu"
    dtype = "float32" if on_cpu else "bfloat16"
  checkpoint = checkpoints.load(name, dtype)
  loaded = LoadedModel(
    name=checkpoint.name,
    model=Transformer(checkpoint.config),
    params=_to_device(checkpoint.params),
    tokenizer=Tokenizer.load(checkpoint.tokenizer_source),
    dtype=checkpoint.config.dtype,
  )
  _trim()
  return loaded


def _trim() -> None:
  """Gives freed memory back: glibc keeps half of what a loader used."""
  trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
  if trim is not None:
    trim(0)


def _to_device(tree: dict[str, Any]) -> dict[str, Any]:
  """Moves leaf by leaf, so that only one leaf at a time lies in memory twice.

  Empties `tree`.
  """
  moved = {}
  for name in list(tree):
    leaf = tree.pop(name)
    moved[name] = (
      _to_device(leaf)
      if isinstance(leaf, dict)
      else jax.block_until_ready(jax.device_put(leaf))
    )
  return moved
