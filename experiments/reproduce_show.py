"""Papers made again, as tables for people."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from specjax.evaluation.reproduction import results
from specjax.evaluation.reproduction.page import number
from specjax.evaluation.reproduction.results import Result

_GROUPS = {
  "formula": "formulas",
  "sampler": "compiled samplers",
  "trained": "models trained here",
}


def paper(result: Result) -> None:
  """Every cell of one paper."""
  title = f"{result.name}: {result.title} ({result.source})"
  table = Table(title=Text(title), title_justify="left")
  table.add_column("place")
  for name in ("published", "ours", "difference", "allowed"):
    table.add_column(name, justify="right")
  table.add_column("verdict")
  for cell in result.cells:
    table.add_row(
      Text(cell.place),
      number(cell.published),
      number(cell.ours),
      number(cell.difference),
      number(cell.allowed),
      Text(cell.verdict, style="red" if cell.verdict == "differs" else ""),
    )
  Console(highlight=False).print(table)


def summary(made: Sequence[Result]) -> None:
  """The three counts, and why cells are out of their tolerance."""
  console = Console(highlight=False)
  table = Table("made by", title="cells", title_justify="left")
  for name in ("agree", "differ", "no published cell"):
    table.add_column(name, justify="right")
  for group, found in results.counts(made).items():
    table.add_row(_GROUPS[group], *(str(count) for count in found.values()))
  console.print(table)
  for result, cell in results.differing(made):
    text = (
      f"{result.name}, {cell.place}: {number(cell.ours)}, printed"
      f" {number(cell.published)}. {cell.note}"
    )
    console.print(Text(text))
  console.print(f"{sum(result.seconds for result in made):.0f} s")
