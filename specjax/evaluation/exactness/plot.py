"""Evidence as a picture: distance against samples, p-values against chance."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from specjax.evaluation.exactness.verdict import (
  CONTROL,
  SPECULATIVE,
  TARGET,
  Evidence,
)

_STYLES = {
  TARGET: ("tab:blue", "o"),
  SPECULATIVE: ("tab:green", "s"),
  CONTROL: ("tab:red", "^"),
}


def draw(evidence: Evidence, title: str, path: Path) -> None:
  """Writes a PNG of two panels."""
  figure = Figure(figsize=(9.5, 4.2), layout="constrained")
  figure.suptitle(title, fontsize=10)
  left, right = figure.subplots(1, 2)
  left.loglog(
    evidence.sizes,
    evidence.floor,
    color="black",
    linestyle="--",
    linewidth=1,
    label="an exact sampler, on average",
  )
  for name, column in evidence.columns.items():
    color, marker = _STYLES[name]
    left.loglog(
      evidence.sizes,
      column.total_variation,
      color=color,
      marker=marker,
      markersize=5,
      label=name,
    )
  left.set_xlabel("samples")
  left.set_ylabel(f"total variation, {evidence.length} tokens jointly")
  left.legend(fontsize=8)
  left.grid(which="both", alpha=0.2)

  right.plot([0, 1], [0, 1], "--", color="black", linewidth=1, label="uniform")
  share = np.arange(1, evidence.seeds + 1) / evidence.seeds
  for name, column in evidence.columns.items():
    color, _ = _STYLES[name]
    right.step(
      [0, *sorted(column.seed_p_values), 1],
      [0, *share, 1],
      where="post",
      color=color,
      label=f"{name}: KS p = {column.uniformity:.2g}",
    )
  right.set_xlabel(f"chi-square p-value of {evidence.samples} samples")
  right.set_ylabel(f"share of {evidence.seeds} seeds")
  right.set_xlim(0, 1)
  right.set_ylim(0, 1.02)
  right.legend(fontsize=8, loc="lower right")
  right.grid(alpha=0.2)
  figure.savefig(path, dpi=130)
