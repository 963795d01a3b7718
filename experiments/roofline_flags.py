"""Flags of the commands that ask the roofline: one case."""

import functools
import os
from typing import Any

from absl import flags

from experiments.flags import ALSO_ELSEWHERE

DEFAULT = os.path.join(
  os.path.dirname(__file__), "..", "configs", "roofline.py"
)
FLAGS = flags.FLAGS
_NAMES = (
  "target",
  "device",
  "chips",
  "weight_bits",
  "cache_bits",
  "concurrency",
  "context",
  "new_tokens",
  "gamma",
  "shape",
  "ratio",
  "acceptance_from",
  "mode",
  "categories",
  "load",
)


@functools.cache
def define() -> None:
  """All of them in place of the config's."""
  text, whole, real = (
    functools.partial(make, **ALSO_ELSEWHERE)
    for make in (flags.DEFINE_string, flags.DEFINE_integer, flags.DEFINE_float)
  )
  text("target", None, "A preset's name, or the folder of a config.json.")
  text("device", None, "A listed chip, or here: this machine, measured.")
  whole("chips", None, "Devices of a replica, tensor parallel.")
  real("weight_bits", None, "Of a weight: 16, 8, 4, or a mean.")
  real("cache_bits", None, "Of a cached number.")
  whole("concurrency", None, "Sequences that run together.")
  whole("context", None, "Tokens of each at the start.")
  whole("new_tokens", None, "That each is for.")
  whole("gamma", None, "num_speculative_tokens.")
  flags.DEFINE_enum(
    "shape",
    None,
    ["constant", "falling"],
    "Of the acceptance across positions.",
    **ALSO_ELSEWHERE,
  )
  flags.DEFINE_list(
    "acceptance",
    None,
    "Of the first position: a number; where several drafters are compared also"
    " name:number of each.",
    **ALSO_ELSEWHERE,
  )
  real("ratio", None, "Falling: of a position's to the one before.")
  text(
    "acceptance_from",
    None,
    "Folder of experiments.benchmark whose rounds give the acceptance; target,"
    " drafter and gamma are then its own.",
  )
  text("mode", None, "Of that folder, where several modes drafted.")
  flags.DEFINE_list(
    "categories",
    None,
    "Of that folder, the classes of prompts that count; by default all.",
    **ALSO_ELSEWHERE,
  )
  flags.DEFINE_enum(
    "load",
    None,
    ["drains", "full"],
    "All sequences start together and none follows, or all always run.",
    **ALSO_ELSEWHERE,
  )


def overlay(config: dict[str, Any]) -> dict[str, Any]:
  """The config's settings, and those of the flags that were given.

  With a run's acceptance, the run's target and gamma stand before the config's:
  None is the run's own.
  """
  given = {name: FLAGS[name].value for name in _NAMES}
  settings = {**config, **{n: v for n, v in given.items() if v is not None}}
  if settings["acceptance_from"] is None:
    for name in ("mode", "categories"):
      if settings[name]:
        raise ValueError(f"--{name} is of a run: give --acceptance_from")
    return settings
  return {**settings, "target": given["target"], "gamma": given["gamma"]}


def given() -> list[str]:
  """The flags of a case that were given, by name."""
  return [n for n in (*_NAMES, "acceptance") if FLAGS[n].value is not None]
