"""Advice by measured runs: what they show, and what they cannot."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from specjax.evaluation.advice.outlook import OBJECTIVES
from specjax.evaluation.figures.summary import summarize
from specjax.evaluation.records import Answer

_RARE = 0.15
_MANY = 10  # sequences; from here on a device is busy


def advise(answers: Sequence[Answer], objective: str) -> dict[str, Any]:
  """What the records say to use.

  A mode is used where its rule is lossless and its 95 % interval over prompts
  lies above plain decoding; of these the fastest. For throughput only batches
  of ten and more count: a batch of one says nothing of a busy device.

  Returns:
    objective, use (a mode's name, or "none"; None where the records cannot
    say), num_speculative_tokens, batch, speedup: {estimate, low, high} or None;
    off_above: the largest batch at which it gains, None where a larger one was
    not tried; classes: {class of prompts: {use, speedup}}; reasons, missing.

  Raises:
    ValueError: no answers, or an unknown objective.
  """
  if objective not in OBJECTIVES:
    raise ValueError(f"objective is latency or throughput, got {objective!r}")
  batches = sorted({answer.batch for answer in answers})
  tables = {
    size: summarize([a for a in answers if a.batch == size]) for size in batches
  } or {1: summarize(answers)}
  wanted = [n for n in batches if objective == "latency" or n >= _MANY]
  size = _batch_of(wanted, objective)
  base = {"objective": objective, "source": "records"}
  if size is None:
    return {
      **base,
      "use": None,
      "num_speculative_tokens": None,
      "batch": None,
      "speedup": None,
      "off_above": None,
      "classes": {},
      "reasons": [
        f"the records hold batches of {_list(batches)}: they say nothing of a"
        " busy device"
      ],
      "missing": [
        f"a run at a batch of {_MANY} or more; meanwhile ask the roofline, with"
        " --acceptance_from of this folder"
      ],
    }
  entries = _compared(tables[size])
  best = _best(entries)
  return {
    **base,
    "use": best["mode"]["name"] if best else ("none" if entries else None),
    "num_speculative_tokens": (
      best["mode"]["num_speculative_tokens"] if best else 0
    ),
    "batch": size,
    "speedup": _ratio(_part(best)) if best else None,
    "off_above": _off_above(best, tables),
    "classes": _classes(entries),
    "reasons": list(_reasons(tables[size], entries, best, size)),
    "missing": list(_missing(tables[size], entries, best, batches)),
  }


def _batch_of(wanted: Sequence[int], objective: str) -> int | None:
  """Latency is read where it counts, with few; throughput with most."""
  if not wanted:
    return None
  return wanted[0] if objective == "latency" else wanted[-1]


def _part(entry: Mapping[str, Any]) -> Mapping[str, Any]:
  """The headline's figures, or all where it left every answer out."""
  return entry["headline"] if entry["headline"]["speedup"] else entry


def _compared(table: Mapping[str, Any]) -> list[Mapping[str, Any]]:
  """Modes of this project that drafted and have a speedup."""
  return [
    entry
    for entry in table["modes"]
    if entry["speedup"]
    and entry["mode"]["drafter"] != "none"
    and entry["mode"]["system"] == "specjax"
  ]


def _gains(part: Mapping[str, Any]) -> bool:
  ratio = part["speedup"]
  return bool(ratio and ratio["low"] is not None and ratio["low"] > 1)


def _best(entries: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
  lawful = [
    e for e in entries if e["mode"]["lossless"] is True and _gains(_part(e))
  ]
  return max(
    lawful, key=lambda e: _part(e)["speedup"]["estimate"], default=None
  )


def _ratio(part: Mapping[str, Any]) -> dict[str, float | None]:
  return {name: part["speedup"][name] for name in ("estimate", "low", "high")}


def _off_above(
  best: Mapping[str, Any] | None, tables: Mapping[int, Mapping[str, Any]]
) -> int | None:
  """The largest batch at which the mode gains, where a larger one shows not."""
  if best is None:
    return None
  name, gained = best["mode"]["name"], 0
  for size, table in sorted(tables.items()):
    entry = next(
      (e for e in _compared(table) if e["mode"]["name"] == name), None
    )
    if entry is None:
      continue
    if not _gains(_part(entry)):
      return gained
    gained = size
  return None


def _classes(entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
  """The best mode of each class of prompts."""
  found: dict[str, Any] = {}
  for name in dict.fromkeys(n for e in entries for n in e["categories"]):
    parts = [
      (e["mode"], e["categories"][name])
      for e in entries
      if name in e["categories"] and e["mode"]["lossless"] is True
    ]
    gaining = [(mode, part) for mode, part in parts if _gains(part)]
    if gaining:
      mode, part = max(gaining, key=lambda x: x[1]["speedup"]["estimate"])
      found[name] = {"use": mode["name"], "speedup": _ratio(part)}
    elif any(part["speedup"] for _, part in parts):
      found[name] = {"use": "none", "speedup": None}
  return found


def _reasons(
  table: Mapping[str, Any],
  entries: Sequence[Mapping[str, Any]],
  best: Mapping[str, Any] | None,
  size: int,
) -> Iterator[str]:
  rows = "1 sequence" if size == 1 else f"{size} sequences"
  for entry in entries:
    mode, ratio = entry["mode"], _part(entry)["speedup"]
    words = f"{mode['name']}: {_times(ratio)} plain decoding, {rows} at a time"
    if mode["lossless"] is not True:
      words += "; LOSSY, so not used"
    elif ratio["low"] is None or ratio["low"] <= 1:
      words += "; no gain is shown"
    yield words
  if best is not None:
    yield from _positions(best)
  elif entries:
    yield "plain decoding: no lossless mode is shown to be faster"
  used = {name: one["use"] for name, one in _classes(entries).items()}
  if len(set(used.values())) > 1:
    named = ", ".join(f"{name}: {use}" for name, use in used.items())
    yield f"classes of prompts want different ones: {named}"


def _positions(best: Mapping[str, Any]) -> Iterator[str]:
  rates = best["pooled"]["acceptance_per_position"]
  if not rates:
    return
  yield "acceptance per position: " + ", ".join(f"{r:.3f}" for r in rates)
  rare = [i for i, rate in enumerate(rates, 1) if rate < _RARE]
  if rare and rare[0] > 1:
    yield (
      f"position {rare[0]} is kept in less than 15 % of the drafts: try"
      f" γ {rare[0] - 1}"
    )
  elif not rare:
    yield (
      f"position {len(rates)} is still kept in {rates[-1]:.0%} of the drafts:"
      " a longer draft may gain more"
    )


def _missing(
  table: Mapping[str, Any],
  entries: Sequence[Mapping[str, Any]],
  best: Mapping[str, Any] | None,
  batches: Sequence[int],
) -> Iterator[str]:
  if table["baseline"] is None:
    yield "plain decoding in the same run: without it there is no speedup"
  elif not entries:
    yield "a mode that drafts at the law of plain decoding"
  for entry in entries:
    ratio = _part(entry)["speedup"]
    name = entry["mode"]["name"]
    if ratio["low"] is None:
      yield f"more prompts: {name} was run on one, which gives no interval"
    elif ratio["low"] <= 1 <= ratio["high"] and ratio["n_needed"]:
      yield (
        f"prompts: {name} has {ratio['n']}, and {ratio['n_needed']} would show"
        " a difference of its size"
      )
  if len(batches) == 1:
    yield (
      f"other batches than {batches[0]}: above which to switch off is not"
      " known; ask the roofline, with --acceptance_from of this folder"
    )


def _times(ratio: Mapping[str, Any]) -> str:
  words = f"{ratio['estimate']:.2f} times"
  if ratio["low"] is not None:
    words += f" ({ratio['low']:.2f} to {ratio['high']:.2f})"
  return words


def _list(values: Sequence[int]) -> str:
  return ", ".join(map(str, values))
