"""A study of the roofline, for people."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

_GIB = 2**30
_COLUMNS = (
  "speedup",
  "a row's",
  "tok/s/chip",
  "plain",
  "draft",
  "idle",
  "ops",
)
_TITLES = {
  "batch": "Against concurrent sequences",
  "gamma": "Against num_speculative_tokens",
  "context": "Against context",
}


def tables(found: Mapping[str, Any]) -> list[Table | Text]:
  """Renderables for a rich console."""
  shown: list[Table | Text] = [Text(_setting(found["case"])), _chief(found)]
  for axis, title in _TITLES.items():
    shown.append(_axis(found, axis, title))
  shown += [_drafters(found), _capacity(found["capacity"])]
  shown.append(Text(found["log_line"]))
  return shown


def beside(found: Mapping[str, Any]) -> list[Table | Text]:
  """A table a mode: what was measured, and what devices would give."""
  what = ", ".join(found["categories"]) or "all that its headline counts"
  shown: list[Table | Text] = [
    Text(
      f"{found['target']}, prompts of {found['run']}: {what}; speedups with"
      " 95 % intervals over prompts"
    )
  ]
  shown += [_mode(one) for one in found["modes"]]
  for one in found["left_out"]:
    shown.append(Text(f"{one['mode']} is left out: {one['why']}"))
  return shown


def _mode(one: Mapping[str, Any]) -> Table:
  tokens = one["tokens_per_round"]
  name = (
    one["mode"] if one["lossless"] is not False else f"{one['mode']} (LOSSY)"
  )
  kept = ", ".join(f"{share:.3f}" for share in one["acceptance_per_position"])
  heads = ("where", "batch", "speedup", "95 %", "drafting", "cost")
  table = _table(
    heads,
    f"{name}, {one['draft']}: {one['prompts']} prompts\n"
    f"kept per position: {kept}\n"
    f"{tokens['estimate']:.2f} tokens a round ({_interval(tokens)})",
  )
  table.columns[0].justify = "left"
  if (ratio := one["measured"]) is not None:
    batches = ", ".join(map(str, ratio["batches"]))
    where = f"measured, {ratio['device']}, {ratio['dtype']}"
    row = (where, batches, _times(ratio["estimate"]), _interval(ratio), "", "")
    table.add_row(*row, style="bold")
  for row in one["predicted"]:
    table.add_row(
      row["device"],
      str(row["batch"]) + ("" if row["fits"] else "*"),
      _times(row["estimate"]),
      _interval(row),
      f"{row['draft_share']:.0%}",
      f"{row['draft_cost']:.3f}",
    )
  if not all(row["fits"] for row in one["predicted"]):
    table.caption = "* does not fit into memory with this draft"
  return table


def _interval(one: Mapping[str, Any]) -> str:
  if one["low"] is None:
    return "one prompt"
  return f"{one['low']:.2f} to {one['high']:.2f}"


def _setting(case: Mapping[str, Any]) -> str:
  chips = f"{case['ways']} x " if case["ways"] > 1 else ""
  load = "all start together" if case["load"] == "drains" else "kept full"
  return (
    f"{case['target']} on {chips}{case['device']} ({case['device_source']}),"
    f" {case['draft']} drafting {case['gamma']}\n"
    f"{case['batch']} sequences ({load}), context {case['context']},"
    f" {case['new_tokens']} new tokens, weights of {case['weight_bits']:g} bits"
    f"\nacceptance {case['acceptance']}{_whose(case)};"
    f" reached: {case['bandwidth_share']:.0%} of"
    f" {case['bandwidth'] / 1e9:,.0f} GB/s,"
    f" {case['operations_share']:.0%} of"
    f" {case['operations'] / 1e12:,.4g} TFLOP/s"
  )


def _whose(case: Mapping[str, Any]) -> str:
  return "" if case["mode"] is None else f", of {case['mode']}"


def _chief(found: Mapping[str, Any]) -> Table:
  f, table = (
    found["figures"],
    Table(box=None, pad_edge=False, show_header=False),
  )
  verify = f["verify"]
  rows = {
    "speedup": f"{f['speedup']:.2f}x",
    "a row's own speedup": f"{f['row_speedup']:.2f}x",
    "tokens/s": f"{f['tokens_per_second']:,.1f} against"
    f" {f['plain_tokens_per_second']:,.1f}",
    "mean acceptance length": f"{f['mean_acceptance_length']:.2f}",
    "acceptance rate of tokens judged": f"{f['judged_acceptance_rate']:.1%}",
    "draft acceptance rate": f"{f['draft_acceptance_rate']:.1%}",
    "draft share of the time": f"{f['draft_share']:.1%}",
    "arithmetic over plain decoding's": f"{f['operations_factor']:.2f}x",
    "idle arithmetic in a verify pass": f"{verify['idle_share']:.1%}",
    "a verify pass": f"{verify['bytes'] / _GIB:.1f} GiB,"
    f" {verify['operations'] / 1e12:.2f} TFLOP,"
    f" {1e3 * verify['memory_seconds']:.2f} ms of reads,"
    f" {1e3 * verify['arithmetic_seconds']:.2f} ms of arithmetic",
  }
  for name, value in rows.items():
    table.add_row(name, value)
  return table


def _axis(found: Mapping[str, Any], axis: str, title: str) -> Table:
  heads = [axis, *_COLUMNS, *(["best γ"] if axis == "batch" else [])]
  table = _table(heads, f"{title}: {found['case']['draft']}")
  for place, row in enumerate(found[axis]):
    cells = [_value(row), *_row(row)]
    if axis == "batch":
      cells.append(str(found["best_gamma"][place] or "off"))
    here = row["value"] == found["case"][axis]
    table.add_row(*cells, style="bold" if here else "")
  if not all(row["fits"] for row in found[axis]):
    table.caption = "* does not fit into memory with this draft"
  return table


def _drafters(found: Mapping[str, Any]) -> Table:
  curves = found["drafters"]
  table = _table(["batch", *curves], "Speedup of each drafter")
  for place, row in enumerate(found["batch"]):
    speedups = (_times(c["batch"][place]) for c in curves.values())
    here = row["value"] == found["case"]["batch"]
    table.add_row(f"{row['value']:,}", *speedups, style="bold" if here else "")
  return table


def _times(speedup: float | None) -> str:
  return "-" if speedup is None else f"{speedup:.2f}x"


def _table(heads: Sequence[str], title: str) -> Table:
  table = Table(*heads, title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
  for column in table.columns:
    column.justify = "right"
  return table


def _value(row: Mapping[str, Any]) -> str:
  return f"{row['value']:,}" + ("" if row["fits"] else "*")


def _row(row: Mapping[str, Any]) -> Sequence[str]:
  return (
    f"{row['speedup']:.2f}x",
    f"{row['row_speedup']:.2f}x",
    f"{row['tokens_per_second_per_device']:,.0f}",
    f"{row['plain_tokens_per_second_per_device']:,.0f}",
    f"{row['draft_share']:.0%}",
    f"{row['idle_share']:.0%}",
    f"{row['operations_factor']:.2f}x",
  )


def _capacity(found: Mapping[str, Any]) -> Table:
  heads = ("draft", "fit without", "with", "tok/s without", "with", "speedup")
  table = _table(heads, "Each at the largest batch that memory holds")
  for name, row in found.items():
    rate, plain = row["tokens_per_second"], row["plain_tokens_per_second"]
    factor = row["speedup"]
    table.add_row(
      name,
      f"{row['plain_batch']:,.0f}",
      f"{row['batch']:,.0f}",
      "-" if plain is None else f"{plain:,.0f}",
      "-" if rate is None else f"{rate:,.0f}",
      _times(factor),
    )
  return table
