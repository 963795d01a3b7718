"""Which papers there are; each is imported when it is asked for."""

import difflib
import importlib

from specjax.evaluation.reproduction.cells import Paper

NAMES = (
  "leviathan2023",
  "leviathan2023_trained",
  "chen2023",
  "block_verification",
  "multi_draft",
  "sequoia",
  "deepseek_v3",
  "eagle3",
  "walkthrough",
  "alignment_notes",
  "serving_page",
)
MODULES = {name: f"{__name__.rpartition('.')[0]}.{name}" for name in NAMES}


def load(name: str) -> Paper:
  """The paper of that name; ValueError for an unknown one."""
  return importlib.import_module(MODULES[_known(name)]).PAPER


def names_of(asked: str) -> tuple[str, ...]:
  """Names that a value of --paper selects, in the registry's order.

  "all" is every paper; a paper's name also takes the parts that are named after
  it, as leviathan2023 takes leviathan2023_trained.

  Raises:
    ValueError: an unknown name.
  """
  if asked == "all":
    return NAMES
  _known(asked)
  return tuple(n for n in NAMES if n == asked or n.startswith(f"{asked}_"))


def _known(name: str) -> str:
  if name in MODULES:
    return name
  near = difflib.get_close_matches(name, NAMES, 1)
  hint = f"; did you mean {near[0]!r}?" if near else ""
  raise ValueError(f"no paper {name!r}{hint} (papers: {', '.join(NAMES)})")
