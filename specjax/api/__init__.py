"""Strings in, strings out: `generate` and `stream`."""

from specjax.api.generation import Stream, generate, stream
from specjax.api.output import Event, Output, Timings
from specjax.api.settings import Sampling

__all__ = [
  "Event",
  "Output",
  "Sampling",
  "Stream",
  "Timings",
  "generate",
  "stream",
]
