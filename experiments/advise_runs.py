"""The work of experiments.advise."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from specjax.evaluation import records as record_files
from specjax.evaluation.advice import candidates as drafters
from specjax.evaluation.advice import from_records, from_roofline
from specjax.evaluation.roofline import question


def by_roofline(
  settings: Mapping[str, Any],
  objective: str,
  concurrency: int | None,
  acceptance: Sequence[str] | None,
  *,
  copies: bool,
  as_json: bool,
) -> int:
  """Advice of the roofline for the config's or the given candidates."""
  if settings["device"] == "here":
    print("measuring this machine", file=sys.stderr)
  if concurrency is not None and concurrency < 1:
    raise ValueError(f"concurrency must be at least 1, got {concurrency}")
  settings = drafters.complete(settings)
  asked = question.ask(
    {
      **settings,
      "drafters": list(settings["candidates"]),
      "acceptance_from": None,
      "concurrency": concurrency or 1,
      "gamma": 1,  # each candidate's is found
    }
  )
  candidates = drafters.build(asked, settings, acceptance or (), copies=copies)
  found = from_roofline.advise(
    candidates,
    objective,
    concurrency,
    longest=settings["longest"],
    copies=copies,
    measured=asked.measured is not None,
  )
  return _show(found, as_json)


def by_records(folder: str, objective: str, *, as_json: bool) -> int:
  """Advice of a measured run."""
  answers = record_files.read(Path(folder))
  return _show(from_records.advise(answers, objective), as_json)


def _show(found: Mapping[str, Any], as_json: bool) -> int:
  if as_json:
    print(json.dumps(found))
    return 0
  lines = [_headline(found)]
  if found.get("schedule"):
    parts = [
      f"{first} to {last}: " + (f"γ {length}" if length else "off")
      for first, last, length in found["schedule"]
    ]
    lines.append(f"by batch, {found['best_candidate']}: {', '.join(parts)}")
  for name, one in found.get("classes", {}).items():
    ratio = one["speedup"]
    speed = f", {ratio['estimate']:.2f} times" if ratio else ""
    lines.append(f"{name}: {one['use']}{speed}")
  lines += ["", "why", *(f"  {text}" for text in found["reasons"])]
  lines += ["", "missing", *(f"  {text}" for text in found["missing"])]
  Console(highlight=False, soft_wrap=True).print(Text("\n".join(lines)))
  return 0


def _headline(found: Mapping[str, Any]) -> str:
  what = {"latency": "a user's speed", "throughput": "tokens a second"}
  goal = what[found["objective"]]
  if found["use"] is None:
    return f"for {found['objective']}: these records cannot say"
  ratio = found["speedup"]
  value = ratio["estimate"] if isinstance(ratio, Mapping) else ratio
  if found["use"] == "none":
    return f"for {found['objective']}: plain decoding, no drafting"
  words = (
    f"for {found['objective']}: {found['use']},"
    f" γ {found['num_speculative_tokens']}: {value:.2f} times {goal} of plain"
    f" decoding at a batch of {found['batch']}"
  )
  if found["off_above"] is not None:
    words += f"; off above {found['off_above']}"
  return words
