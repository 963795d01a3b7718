"""The work of experiments.roofline."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from experiments import roofline_show
from specjax.evaluation import roofline_page
from specjax.evaluation.roofline import plots, question
from specjax.evaluation.roofline import study as studies
from specjax.evaluation.roofline_page import check


def study(
  settings: Mapping[str, Any], folder: Path | None, *, as_json: bool
) -> int:
  """Prints a case and its neighbours, and writes them where a folder is."""
  if settings["device"] == "here":
    print("measuring this machine", file=sys.stderr)
  asked = question.ask(settings)
  ranges = settings["batches"], settings["contexts"], settings["longest"]
  found = studies.study(asked, *ranges)
  if as_json:
    print(json.dumps(found))
  else:
    Console(highlight=False).print(*roofline_show.tables(found), sep="\n")
  if folder is not None:
    data = roofline_page.page_data(asked, *ranges)
    page = folder / roofline_page.FILE
    page.write_text(roofline_page.render(data), encoding="utf-8")
    (folder / "roofline.json").write_text(json.dumps(found), encoding="utf-8")
    plots.draw(found, folder)
    print(f"wrote {page}", file=sys.stderr)
  return 0


def check_page(count: int, *, as_json: bool) -> int:
  """0 where the page's arithmetic is Python's on random settings.

  Raises:
    ValueError: no browser.
  """
  browser = check.find_browser()
  if browser is None:
    raise ValueError("--check_page needs a Chromium on the path, or $CHROME")
  print(f"{count} settings in {browser}", file=sys.stderr)
  worst, where = check.compare(
    check.random_cases(count), lambda script: check.in_browser(script, browser)
  )
  agrees = worst <= check.TOLERANCE
  if as_json:
    print(
      json.dumps(
        {
          "settings": count,
          "largest_difference": worst,
          "where": where,
          "tolerance": check.TOLERANCE,
          "agrees": agrees,
        }
      )
    )
  else:
    verdict = "agrees with" if agrees else "DIFFERS from"
    print(
      f"the page's arithmetic {verdict} Python's on {count} settings: largest"
      f" relative difference {worst:.1e}"
      + (f" ({where})" if where else "")
      + f", tolerance {check.TOLERANCE:g}"
    )
  return 0 if agrees else 1
