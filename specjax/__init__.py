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
  from specjax.drafters.trained import load as load_drafter

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
  "load_drafter",
  "load_model",
  "stream",
]

__version__ = "0.1.0"

_MODULES = ("acceptance", "drafters")
# Homes of what is not in specjax.api.
_HOMES = {
  "LoadedModel": "checkpoints.loaded",
  "load_model": "checkpoints.loaded",
  "load_drafter": "drafters",
}


def __getattr__(name: str) -> Any:
  """Imports a public name when it is first used, so that import is quick."""
  if name not in __all__:
    raise AttributeError(f"module 'specjax' has no attribute {name!r}")
  if name in _MODULES:
    value = importlib.import_module(f"specjax.{name}")
  else:
    home = _HOMES.get(name, "api")
    value = getattr(importlib.import_module(f"specjax.{home}"), name)
  globals()[name] = value
  return value


def __dir__() -> list[str]:
  return __all__
