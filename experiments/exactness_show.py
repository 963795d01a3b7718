"""What the exactness command prints for people."""

from rich.console import Console
from rich.table import Table

from specjax.evaluation.exactness import (
  CONTROL,
  Evidence,
  Identity,
  Interval,
)


def evidence(found: Evidence, title: str, seconds: float) -> None:
  """Tables of distances and p-values, then the verdict."""
  console = Console()
  columns = found.columns
  grown = Table(
    "samples",
    "exact sampler",
    *columns,
    title=f"TV (p-value) of the joint law of {found.length} tokens,"
    f" {found.texts} texts",
  )
  for i, size in enumerate(found.sizes):
    cells = [
      f"{c.total_variation[i]:.4f} ({c.p_values[i]:.2g})"
      for c in columns.values()
    ]
    grown.add_row(str(size), f"{found.floor[i]:.4f}", *cells)
  alone = Table(
    "token", "exact sampler", *columns, title="TV (p-value) of each token"
  )
  for i, floor in enumerate(found.position_floor):
    cells = [
      f"{c.position_total_variation[i]:.5f} ({c.position_p_values[i]:.2g})"
      for c in columns.values()
    ]
    alone.add_row(str(i + 1), f"{floor:.5f}", *cells)
  seeds = Table(
    "",
    *columns,
    title=f"{found.seeds} seeds of {found.samples} samples",
  )
  rows = {
    "uniform, KS p": lambda c: f"{c.uniformity:.2g}",
    "p < 0.001": lambda c: f"{c.rejected_seeds}",
    "TV, no chance": lambda c: _interval(c.distance),
    "3 rounds or more": lambda c: f"{c.three_rounds:.0%}",
    "drafted": lambda c: f"{c.drafted}",
    "accepted": lambda c: f"{c.accepted}",
  }
  for name, cell in rows.items():
    seeds.add_row(name, *(cell(c) for c in columns.values()))
  console.print(title, highlight=False)
  console.print(grown, alone, seeds)
  sentence, _ = found.verdict
  control = columns[CONTROL].rejected_seeds
  console.print(
    f"{sentence}\n"
    "control, the same rule but for a draw from p after a refusal: rejected at"
    f" {control} of {found.seeds} seeds\n"
    f"chance finds a fault with probability below"
    f" {found.failure_probability:.1e}; {seconds:.0f} s",
    highlight=False,
    soft_wrap=True,
  )


def _interval(found: Interval) -> str:
  return f"{found.estimate:.4f} ± {found.high - found.estimate:.4f}"


def identity(found: Identity, claimed: bool, seconds: float) -> None:
  """Counts of equal outputs, and every difference."""
  console = Console()
  if found.differences:
    table = Table("", "token", "plain", "other", "below the largest logit", "")
    for label, d in found.differences:
      gap = "" if d.gap is None else f"{d.gap:.2g}"
      cells = str(d.position + 1), str(d.plain), str(d.other), gap, d.kind
      table.add_row(label, *cells)
    console.print(table)
  lines = [
    f"{found.equal} of {found.compared} outputs equal,"
    f" {found.near_ties} near-ties in {found.tokens} tokens; {seconds:.0f} s"
  ]
  if found.faults:
    word = "FAULTS" if claimed else "different, as a lossy rule may be"
    lines.append(f"{word}: " + "; ".join(found.faults))
  else:
    lines.append("identical but for near-ties")
  console.print("\n".join(lines), highlight=False, soft_wrap=True)
