"""DeepSeek-V3: what one extra predicted token gives, and its sizes.

Section 5.4.3 prints an acceptance of 85 to 90 % of the second token and 1.8
times the tokens a second, with neither batch nor hardware. Sizes follow from
the architecture of section 4.2; the width of the three dense layers is that of
the released configuration.
"""

import dataclasses
from collections.abc import Iterator

import numpy as np

from specjax.evaluation.reproduction.cells import (
  Cell,
  Figure,
  Paper,
  Settings,
  half_unit,
)
from specjax.theory import speedup

ACCEPTANCE = (0.85, 0.90)
SPEEDUP = 1.8


@dataclasses.dataclass(frozen=True)
class Sizes:
  """The architecture as printed."""

  layers: int = 61
  dense_layers: int = 3
  hidden: int = 7168
  heads: int = 128
  head_dim: int = 128
  query_rank: int = 1536
  key_rank: int = 512
  rope_dim: int = 64
  experts: int = 256
  used_experts: int = 8
  shared_experts: int = 1
  expert_width: int = 2048
  dense_width: int = 18432
  vocab: int = 129280


PRINTED = Sizes()


def attention(s: Sizes) -> int:
  """Parameters of one latent attention."""
  queries = s.hidden * s.query_rank
  queries += s.query_rank * s.heads * (s.head_dim + s.rope_dim)
  keys = s.hidden * (s.key_rank + s.rope_dim)
  keys += s.key_rank * s.heads * 2 * s.head_dim
  return queries + keys + s.heads * s.head_dim * s.hidden


def expert_layer(s: Sizes, experts: int) -> int:
  """One layer with so many routed experts, and its router."""
  one = 3 * s.hidden * s.expert_width
  routed = (experts + s.shared_experts) * one + s.experts * s.hidden
  return attention(s) + routed


def parameters(s: Sizes, experts: int) -> int:
  """Of the main model with so many routed experts a layer."""
  dense = s.dense_layers * (attention(s) + 3 * s.hidden * s.dense_width)
  sparse = (s.layers - s.dense_layers) * expert_layer(s, experts)
  return dense + sparse + 2 * s.vocab * s.hidden


def draft_cost(s: Sizes) -> float:
  """c: the module's parameters in use over the main model's.

  One layer, the projection of two hidden vectors, and the shared output table;
  of embeddings a row is looked up.
  """
  tables = s.vocab * s.hidden
  module = expert_layer(s, s.used_experts) + 2 * s.hidden**2 + tables
  return module / (parameters(s, s.used_experts) - tables)


def cells(settings: Settings) -> Iterator[Cell]:
  """Sizes, then tokens and speed at both ends of the printed acceptance."""
  del settings
  sizes = PRINTED
  tables = sizes.vocab * sizes.hidden
  for name, experts, unread, printed in (
    ("parameters, billions", sizes.experts, 0, 671.0),
    ("parameters in use, billions", sizes.used_experts, tables, 37.0),
  ):
    ours = (parameters(sizes, experts) - unread) / 1e9
    note = "norms left out"
    if unread:
      note += "; so is the table of embeddings, of which a row is read"
    yield Cell(
      f"section 4.2: {name}", "formula", ours, printed, half_unit(0), note=note
    )
  cost = draft_cost(sizes)
  yield Cell(
    "c of the module", "formula", cost, None, 0.0, note="by parameters"
  )
  for alpha in ACCEPTANCE:
    place = f"section 5.4.3, acceptance {alpha}"
    tokens = float(speedup.tokens_per_pass(alpha, 1))
    yield Cell(f"{place}: tokens a pass", "formula", tokens, None, 0.0)
    ours = float(speedup.speedup(alpha, 1, cost))
    yield Cell(
      f"{place}: speedup",
      "formula",
      ours,
      SPEEDUP,
      half_unit(1),
      note=(
        "one number is printed for the whole range of acceptance, with neither"
        " batch nor hardware; memory traffic of drafting counted, not that of"
        " more experts in a pass of two tokens"
      ),
    )


def figures(settings: Settings) -> Iterator[Figure]:
  """Speedup by acceptance at the module's cost and at none."""
  del settings
  alpha = np.linspace(0.5, 1.0, 26)
  yield Figure(
    "One drafted token",
    "acceptance of the second token",
    "speedup",
    {
      f"c = {cost:.3f}": (
        alpha.tolist(),
        np.asarray(speedup.speedup(alpha, 1, cost)).tolist(),
      )
      for cost in (0.0, draft_cost(PRINTED))
    },
    {"printed": ([*ACCEPTANCE], [SPEEDUP] * 2)},
  )


PAPER = Paper(
  "deepseek_v3",
  "DeepSeek-V3 Technical Report",
  "arXiv 2412.19437",
  cells,
  figures,
)
