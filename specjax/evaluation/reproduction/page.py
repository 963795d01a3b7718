"""One self-contained page with every table and figure of the papers."""

import base64
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import jinja2

from specjax.evaluation.reproduction import results
from specjax.evaluation.reproduction.results import Result

FILE = "reproduction.html"
_HERE = Path(__file__).parent
_HOUSE_STYLE = _HERE.parent / "report" / "style.css"


def number(value: float | None) -> str:
  """Six digits at most; a dash for none."""
  if value is None or math.isnan(value):
    return "–"
  return f"{value:.6g}"


def render(made: Sequence[Result], drawn: Mapping[str, Sequence[bytes]]) -> str:
  """The page: it loads nothing and runs no script.

  Args:
    drawn: PNGs of each paper's figures, by its name.
  """
  environment = jinja2.Environment(
    loader=jinja2.FileSystemLoader(_HERE),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
  )
  environment.filters["number"] = number
  plots = {
    result.name: [
      (figure.title, base64.b64encode(picture).decode())
      for figure, picture in zip(
        result.figures, drawn[result.name], strict=True
      )
    ]
    for result in made
  }
  return environment.get_template("page.html.jinja").render(
    made=made,
    counts=results.counts(made),
    differing=results.differing(made),
    plots=plots,
    style=_HOUSE_STYLE.read_text(encoding="utf-8"),
  )
