"""Laws, verdicts and comparisons in words."""

from collections.abc import Mapping
from typing import Any

from specjax.evaluation.figures.statistics import Estimate
from specjax.evaluation.records import Mode


def law_name(mode: Mode) -> str:
  """The law asked for, in a few words."""
  if mode.temperature == 0:
    return "greedy"
  parts = [f"T={mode.temperature:g}"]
  if mode.top_k:
    parts.append(f"top-k {mode.top_k}")
  if mode.top_p < 1:
    parts.append(f"top-p {mode.top_p:g}")
  if mode.min_p:
    parts.append(f"min-p {mode.min_p:g}")
  return ", ".join(parts)


def verdict(mode: Mode, identity: Mapping[str, Any] | None) -> str:
  """What is known of a mode's output law; lossy rules are named in capitals."""
  if identity is None or not identity["compared"]:
    if mode.lossless is None:
      return "law not stated"
    return "lossless by its rule" if mode.lossless else "LOSSY"
  compared, equal = identity["compared"], identity["equal"]
  different, ties = compared - equal, identity["near_ties"]
  if not different:
    found = "identical"
  elif ties is not None and ties == different:
    found = f"identical but for {ties} near-ties"
  else:
    found = f"{equal} of {compared} identical"
    found += f", {ties} near-ties" if ties is not None else ""
  return f"LOSSY, {found}" if mode.lossless is False else found


def mode_name(mode: Mode) -> str:
  """Its name; a lossy rule is said so in capitals."""
  lossy = mode.lossless is False and "lossy" not in mode.name.lower()
  return f"{mode.name} (LOSSY)" if lossy else mode.name


def sentence(a: str, b: str, ratio: Estimate) -> str:
  """What a speedup of A over B says, in words.

  "would show it" is the number of prompts that a paired t test needs for a
  difference of this size; see `statistics.prompts_needed`.
  """
  times = f"{ratio.estimate:.2f}x"
  if ratio.low is None or ratio.high is None:
    return f"{a} ran at {times} of {b} on one prompt; no interval from one"
  spread = f"{times} ({ratio.low:.2f} to {ratio.high:.2f}, 95 %"
  spread += f", {ratio.n} prompts)"
  needed = ratio.n_needed
  if ratio.low > 1 or ratio.high < 1:
    found = f"{a} beats {b} by" if ratio.low > 1 else f"{a} is slower than {b}:"
    return f"{found} {spread}; {needed} would show it"
  more = (
    "" if needed is None else f"; {needed} prompts needed to show this much"
  )
  return f"no difference seen between {a} and {b}: {spread}{more}"
