"""Does the page's script compute what Python does? Random cases, one by one."""

import json
import math
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from specjax.evaluation import roofline_page
from specjax.evaluation.roofline import cases, figures
from specjax.evaluation.roofline.cases import Acceptance, Case
from specjax.models.config import DecoderConfig
from specjax.theory import devices, drafts, shapes
from specjax.theory.roofline import Setup
from specjax.theory.rounds import Drafter

TOLERANCE = 1e-6
_BROWSERS = (
  "chromium",
  "chromium-browser",
  "google-chrome",
  "google-chrome-stable",
  "chrome",
)
_QUIET = (
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
)
_TARGETS = ("qwen3-8b", "llama-3.1-8b", "qwen2.5-72b", "smollm2-135m")
_DRAFTS = (
  "qwen3-0.6b",
  "llama-3.2-1b",
  "ngram",
  "head",
  "self:512",
  "eagle3",
  "medusa",
  "blockwise",
)
_MOST = 16  # tokens of a draft
# Compared as they are: near 0 they are differences of equals.
_SHARES = ("idle_share", "draft_share")


def random_cases(count: int, seed: int = 0) -> list[Case]:
  """Of all models, drafters, devices and setups that the page can be in."""
  rng = np.random.default_rng(seed)
  return [_random_case(rng) for _ in range(count)]


def _random_case(rng: np.random.Generator) -> Case:
  def one(values: Sequence[Any]) -> Any:
    return values[int(rng.integers(len(values)))]

  def spread(low: int, high: int) -> int:
    return int(np.exp(rng.uniform(np.log(low), np.log(high + 1))))

  sizes = cases.sizes_of(one(_TARGETS))
  draft, place = one(_DRAFTS), one(list(devices.DEVICES))
  ratio = one((1.0, float(rng.uniform(0.5, 1))))
  return Case(
    target=shapes.shape_of(sizes),
    drafter=_drafter(draft, sizes),
    draft=draft,
    device=devices.device(place),
    place=place,
    setup=Setup(
      weight_bits=one((4, 4.5, 8, 16)),
      cache_bits=one((8, 16)),
      ways=one((1, 1, 2, 4, 8)),
      bandwidth_share=float(rng.uniform(0.5, 1)),
      operations_share=float(rng.uniform(0.4, 1)),
      fixed_seconds=one((0.0, 3e-4)),
      hop_seconds=one((0.0, 2e-6)),
    ),
    acceptance=Acceptance(float(rng.uniform(0.02, 0.99)), ratio),
    batch=spread(1, 1024),
    context=spread(1, 131072),
    new_tokens=spread(1, 512),
    gamma=int(rng.integers(1, _MOST + 1)),
    load=one(cases.LOADS),
    memory_share=float(rng.uniform(0.5, 1)),
  )


def _drafter(name: str, sizes: DecoderConfig) -> Drafter:
  """By name; trained drafters at sizes that none need have."""
  width = sizes.hidden_size
  if name == "eagle3":
    return drafts.eagle(sizes, head_size=8192, fc_norm=True)
  if name == "medusa":
    return drafts.medusa(width, 8192, _MOST, own_heads=False)
  if name == "blockwise":
    return drafts.blockwise(width, 8192, _MOST, inner_size=width)
  return cases.drafter_of(name, sizes)


def largest_difference(
  ours: Mapping[str, Any], theirs: Mapping[str, Any]
) -> tuple[float, str]:
  """Between figures of one case, as (share of ours, where).

  Infinite where one has a figure that the other has not.
  """
  mine, other = dict(_leaves(ours)), dict(_leaves(theirs))
  worst = (0.0, "")
  for name in mine | other:
    worst = max(worst, (_apart(name, mine.get(name), other.get(name)), name))
  return worst


def _apart(name: str, ours: float | None, theirs: float | None) -> float:
  if ours is None or theirs is None:
    return 0.0 if ours is theirs else math.inf
  if ours == theirs:
    return 0.0
  share = name.rpartition(".")[2] in _SHARES
  return abs(ours - theirs) / (1.0 if share else abs(ours) or abs(theirs))


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, float | None]]:
  if isinstance(value, Mapping):
    for key, part in value.items():
      yield from _leaves(part, f"{name}.{key}" if name else key)
  elif isinstance(value, Sequence):
    for place, part in enumerate(value):
      yield from _leaves(part, f"{name}.{place}")
  else:
    yield name, None if value is None else float(value)


def compare(
  asked: Sequence[Case], evaluate: Callable[[str], str]
) -> tuple[float, str]:
  """The largest difference over the cases, and where it is.

  Args:
    evaluate: runs a script in which `arithmetic` is defined, and returns the
      text that its last expression is.
  """
  given = json.dumps([roofline_page.case_json(case) for case in asked])
  found = json.loads(
    evaluate(f"JSON.stringify({given}.map((one) => arithmetic.figures(one)))")
  )
  worst = (0.0, "")
  for number, (case, theirs) in enumerate(zip(asked, found, strict=True)):
    apart, name = largest_difference(figures.figures(case), theirs)
    worst = max(worst, (apart, f"case {number}, {name}"))
  return worst


def find_browser() -> str | None:
  """$CHROME, or a Chromium on the path; None without one."""
  names = (os.environ.get("CHROME", ""), *_BROWSERS)
  return next(filter(None, map(shutil.which, filter(None, names))), None)


def in_browser(script: str, browser: str) -> str:
  """Evaluates a script beside `arithmetic` in a headless browser.

  Raises:
    ValueError: the browser does not run, or the script does not.
  """
  page = (
    "<!DOCTYPE html><meta charset=utf-8><body><script>"
    + roofline_page.own(roofline_page.ARITHMETIC)
    + "</script><script>document.body.textContent = "
    + script.replace("</", "<\\/")
    + "</script>"
  )
  with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "check.html"
    path.write_text(page, encoding="utf-8")
    text = dump(path.as_uri(), browser)
  start, end = text.rfind("<body>"), text.rfind("</body>")
  body = text[start + len("<body>") : end]
  if start < 0 or not body.startswith(("[", "{")):
    raise ValueError(f"{browser} did not run the page's script")
  return body


def dump(address: str, browser: str) -> str:
  """The document of an address once its scripts have run.

  Raises:
    ValueError: the browser does not run.
  """
  with tempfile.TemporaryDirectory() as profile:
    try:
      ran = subprocess.run(
        [browser, *_QUIET, f"--user-data-dir={profile}", "--dump-dom", address],
        capture_output=True,
        timeout=120,
        check=True,
      )
    except (OSError, subprocess.SubprocessError) as error:
      raise ValueError(f"{browser} does not run: {error}") from error
  return ran.stdout.decode("utf-8", "replace")
