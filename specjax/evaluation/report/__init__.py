"""A run's folder as one page that needs nothing else."""

import base64
import hashlib
import json
import math
from pathlib import Path
from typing import Any

import jinja2

from specjax.evaluation.figures import pooling
from specjax.evaluation.report import folder as folders
from specjax.evaluation.report import packing, tables, tokens

FILE = "report.html"
_HERE = Path(__file__).parent


def write(folder: Path) -> Path:
  """Writes report.html of a run's folder, and returns its path.

  The page loads nothing: pictures, styles, script and data are inside it. It
  is made of summary.json, config.json, records.jsonl, traces.jsonl and
  plots/*.png; what is missing is named in its place.

  Raises:
    ValueError: no such folder, or it cannot be written to.
  """
  page = render(folders.read(folder))
  path = folder / FILE
  try:
    # A lone surrogate has no UTF-8.
    path.write_bytes(page.encode("utf-8", "replace"))
  except OSError as error:
    raise ValueError(f"cannot write {path}: {error.strerror}") from error
  return path


def render(run: folders.Run) -> str:
  """The page."""
  style, script = _own("style.css"), _own("viewer.js")
  by_mode: dict[str, list[tokens.Trace]] = {}
  for trace in run.traces:
    by_mode.setdefault(trace.get("mode", ""), []).append(trace)
  environment = run.summary.get("environment") or (
    run.answers[0].environment if run.answers else {}
  )
  command = tables.command(
    run.config, run.config.get("config") or {}, environment
  )
  shown = {k: v for k, v in environment.items() if k != "command"}
  mode_names, speedups = tables.speedups(run.summary)
  return (
    _templates()
    .get_template("report.html.jinja")
    .render(
      run=run,
      style=style,
      script=script,
      style_hash=_hash(style),
      script_hash=_hash(script),
      command=command,
      facts=tables.facts(shown),
      varies=tables.facts(run.summary.get("environment_varies") or {}),
      shortest=min((a.new_tokens for a in run.answers), default=None),
      config=json.dumps(run.config, indent=2, ensure_ascii=False),
      baselines=tables.baselines(run.summary),
      sentences=tables.sentences(run.summary),
      headline=tables.headline(run.summary),
      everything=tables.everything(run.summary),
      repetitive=pooling.REPETITIVE,
      categories=tables.categories(run.summary),
      differences=tables.differences(run.summary),
      prediction=run.summary.get("prediction") or [],
      category_modes=mode_names,
      speedups=speedups,
      token_counts=[
        (name, tokens.most_refused(traces), tokens.by_class(traces))
        for name, traces in by_mode.items()
        if any(entry["nodes"] for t in traces for entry in t["rounds"])
      ],
      data=packing.pack(run.answers, run.traces),
    )
  )


def _templates() -> jinja2.Environment:
  made = jinja2.Environment(
    loader=jinja2.FileSystemLoader(_HERE),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
  )
  made.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
  made.filters.update(number=_number, percent=_percent, visible=_visible)
  return made


def _own(name: str) -> str:
  return (_HERE / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
  """What a Content-Security-Policy allows an inline element by."""
  digest = hashlib.sha256(text.encode()).digest()
  return "sha256-" + base64.b64encode(digest).decode()


def _number(value: Any, digits: int = 2) -> str:
  if not isinstance(value, int | float) or not math.isfinite(value):
    return "–"
  return f"{value:,}" if isinstance(value, int) else f"{value:,.{digits}f}"


def _percent(value: float | None) -> str:
  return "–" if value is None else f"{100 * value:.1f} %"


def _visible(text: str) -> str:
  """A token's text with its spaces and line ends shown."""
  for char, shown in ((" ", "␣"), ("\n", "⏎"), ("\t", "⇥"), ("\r", "␍")):
    text = text.replace(char, shown)
  return text
