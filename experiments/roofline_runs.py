"""The work of experiments.roofline."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from experiments import roofline_show
from specjax.evaluation import roofline_page
from specjax.evaluation.roofline import beside as measured
from specjax.evaluation.roofline import here, plots, question
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


def beside(
  settings: Mapping[str, Any],
  devices: Sequence[str],
  batches: Sequence[int],
  lengths: tuple[int | None, int | None],
  folder: Path | None,
  *,
  as_json: bool,
) -> int:
  """Prints a run's speedups beside those of devices.

  Args:
    lengths: tokens of a sequence at the start and new ones; None is the run's.
  """
  if here.NAME in devices:
    print("measuring this machine", file=sys.stderr)
  found = measured.compare(settings, devices, batches, *lengths)
  if as_json:
    print(json.dumps(found))
  else:
    shown = roofline_show.beside(found)
    Console(highlight=False).print(*shown, sep="\n")
  if folder is not None:
    (folder / "roofline.json").write_text(json.dumps(found), encoding="utf-8")
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
