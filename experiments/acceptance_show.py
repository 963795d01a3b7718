"""Tables of the acceptance command."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

Result = Mapping[str, Any]
_WIDTH = 120


def study(result: Result) -> None:
  """Costs once, then each temperature."""
  console = _console()
  lossy = "lossless" if result["lossless"] else "LOSSY"
  console.print(
    f"{result['environment']['model']}, drafter {result['drafter']}, rule"
    f" {result['rule']} ({lossy}), {result['prompts']} prompts"
  )
  console.print(_costs(result["costs"]))
  for part in result["temperatures"]:
    console.print(_alpha(part))
    console.print(_lengths(part))
    console.print(_positions(part))
    console.print(_verdict(part))


def tree(result: Result) -> None:
  """Acceptance by rank, and the best trees for it, at each temperature."""
  console = _console()
  lossy = "lossless" if result["lossless"] else "LOSSY"
  console.print(
    f"{result['environment']['model']}, drafter {result['drafter']} of"
    f" {result['num_nodes']} nodes, {result['max_depth']} deep, rule"
    f" {result['rule']} ({lossy}), {result['prompts']} prompts"
  )
  for part in result["temperatures"]:
    console.print(
      f"\ntemperature {part['temperature']:g}:"
      f" {part['mean_acceptance_length']:.2f} tokens a pass"
    )
    ranks = _table("children of a kept node")
    _add_numbers(ranks, "rank", "judged", "kept", "acceptance", "share of all")
    for rank, line in enumerate(part["ranks"], 1):
      ranks.add_row(
        str(rank),
        str(line["tried"]),
        str(line["kept"]),
        _number(line["acceptance"], 3),
        _number(line["share"], 3),
      )
    console.print(ranks)
    sizes = _table("best static trees by the shares of ranks")
    _add_numbers(sizes, "nodes", "deep", "tokens a pass", "speedup predicted")
    for line in part["trees"]:
      sizes.add_row(
        str(line["num_nodes"]),
        str(line["max_depth"]),
        _number(line["tokens"]),
        _number(line["predicted_speedup"]),
      )
    console.print(sizes)
    console.print(_best_tree(part["best"]))


def _best_tree(best: Result) -> str:
  if not best["num_nodes"]:
    return "no tree is faster here than plain decoding"
  return (
    f"best here: {best['num_nodes']} nodes, {best['predicted_speedup']:.2f}x"
    f" predicted, tree={best['tree']}"
  )


def sweep(result: Result) -> None:
  """Every way at every draft length."""
  table = _table("measured over predicted time")
  table.add_column("drafter")
  _add_numbers(
    table,
    "γ",
    "tokens a pass",
    "predicted, s",
    "measured, s",
    "ratio",
    "speedup",
    "predicted",
    "closed form",
  )
  for case in result["cases"]:
    table.add_row(
      case["name"],
      str(case["num_speculative_tokens"]),
      _number(case["mean_acceptance_length"]),
      _number(case["predicted_s"], 3),
      _number(case["measured_s"], 3),
      _number(case["ratio"], 3),
      _number(case["speedup"]),
      _number(case["predicted_speedup"]),
      _number(case["closed_form"]),
    )
  _console().print(table)
  ratios = [c["ratio"] for c in result["cases"] if c["ratio"] is not None]
  if ratios:
    print(
      f"measured over predicted: {min(ratios):.3f} to {max(ratios):.3f} over"
      f" {len(ratios)} ways"
    )


def _console() -> Console:
  """As wide as the terminal; in a pipe as wide as the tables."""
  console = Console(highlight=False, markup=False)
  return (
    console
    if console.is_terminal
    else Console(highlight=False, markup=False, width=_WIDTH)
  )


def _table(title: str) -> Table:
  return Table(title=title, title_justify="left")


def _add_numbers(table: Table, *names: str) -> None:
  for name in names:
    table.add_column(name, justify="right")


def _costs(costs: Result) -> Table:
  table = _table(
    f"parts of a round at {costs['context']} tokens of context,"
    f" c = {costs['c']:.3f}"
  )
  _add_numbers(
    table, "slots, or drafted", "pass, ms", "over one slot", "drafting, ms"
  )
  sizes = {int(n) for n in (*costs["pass_s"], *costs["draft_s"])}
  for size in map(str, sorted(sizes)):
    table.add_row(
      size,
      _milliseconds(costs["pass_s"].get(size)),
      _number(costs["pass_over_one"].get(size)),
      _milliseconds(costs["draft_s"].get(size)),
    )
  return table


def _alpha(part: Result) -> str:
  alpha = part["alpha"]
  return (
    f"\ntemperature {part['temperature']:g}: alpha {_number(alpha['alpha'], 3)}"
    f" by teacher forcing over {alpha['positions']} positions, proposals at"
    f" {alpha['share_proposed']:.0%}, kept by exact match"
    f" {_number(alpha['exact_match'], 3)}, greedy agreement"
    f" {_number(alpha['greedy_agreement'], 3)}, entropy of the target"
    f" {alpha['entropy_nats']:.2f} nats"
  )


def _lengths(part: Result) -> Table:
  table = _table("speedup over plain decoding")
  _add_numbers(
    table,
    "γ",
    "tokens a pass",
    "accepted",
    "closed form",
    "by position",
    "by rounds",
    "measured",
    "measured/predicted time",
  )
  for entry in part["lengths"]:
    rate = entry["draft_acceptance_rate"]
    table.add_row(
      str(entry["num_speculative_tokens"]),
      _number(entry["mean_acceptance_length"]),
      "-" if rate is None else f"{rate:.0%}",
      _number(entry["closed_form"]),
      _number(entry["from_positions"]),
      _number(entry["predicted_speedup"]),
      _number(entry["speedup"]),
      _number(entry["ratio"], 3),
    )
  return table


def _positions(part: Result) -> Table:
  table = _table("acceptance by position")
  _add_numbers(
    table,
    "position",
    "kept",
    "kept if reached",
    "gain, tokens",
    "cost, passes",
    "pays",
  )
  rows = zip(
    part["positions"],
    part["acceptance_per_position"],
    part["acceptance_per_position_conditional"],
    strict=True,
  )
  for position, kept, reached in rows:
    table.add_row(
      str(position["position"]),
      f"{kept:.3f}",
      "-" if reached is None else f"{reached:.3f}",
      _number(position["gain_tokens"]),
      _number(position["cost_passes"]),
      "yes" if position["pays"] else "no",
    )
  return table


def _verdict(part: Result) -> str:
  best, cut = part["best_length"], part["cut"]
  measured = (
    f"best measured: γ = {best}, {part['best_speedup']:.2f} times plain"
    if best
    else f"no length is faster than plain; the best is"
    f" {part['best_speedup']:.2f} times plain"
  )
  told = f"cut at γ = {cut}" if cut else "do not draft"
  return f"{measured}; the rates by position say: {told}"


def _number(value: float | None, digits: int = 2) -> str:
  return "-" if value is None else f"{value:.{digits}f}"


def _milliseconds(value: float | None) -> str:
  return "-" if value is None else f"{1e3 * value:.2f}"
