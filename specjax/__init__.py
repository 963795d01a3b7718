"""Speculative decoding in JAX: any drafter against any target."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
  from specjax import acceptance, drafters
  from specjax.api import (
    Event,
    Output,
    Sampling,
    Stream,
    Timings,
    generate,
    stream,
  )
  from specjax.checkpoints.loaded import LoadedModel, load_model

__all__ = [
  "Event",
  "LoadedModel",
  "Output",
  "Sampling",
  "Stream",
  "Timings",
  "__version__",
  "acceptance",
  "drafters",
  "generate",
  "load_model",
  "stream",
]

__version__ = "0.1.0"

_MODULES = ("acceptance", "drafters")
_LOADED = ("LoadedModel", "load_model")


def __getattr__(name: str) -> Any:
  """Imports a public name when it is first used, so that import is quick."""
  if name not in __all__:
    raise AttributeError(f"module 'specjax' has no attribute {name!r}")
  if name in _MODULES:
    value = importlib.import_module(f"specjax.{name}")
  else:
    home = "checkpoints.loaded" if name in _LOADED else "api"
    value = getattr(importlib.import_module(f"specjax.{home}"), name)
  globals()[name] = value
  return value


def __dir__() -> list[str]:
  return __all__
