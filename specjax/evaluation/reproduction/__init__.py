"""Published numbers beside ours: one module a paper.

`registry.load` gives a `cells.Paper` by name; its cells are computed when they
are asked for. A published number is data, ours never is.
"""

from specjax.evaluation.reproduction.cells import (
  Cell,
  Figure,
  Group,
  Paper,
  Settings,
  half_unit,
)

__all__ = ["Cell", "Figure", "Group", "Paper", "Settings", "half_unit"]
