"""Answers and figures for people: streamed text, then a small table."""

import sys
from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from experiments.answers import figures
from specjax import api

_ACCEPTED = "green"


class Screen:
  """Standard output: colours in a terminal, plain text elsewhere."""

  def __init__(self):
    self._console = Console(highlight=False, soft_wrap=True)

  @property
  def colours(self) -> bool:
    return self._console.is_terminal and not self._console.no_color

  def pieces(self, event: api.Event) -> None:
    """New text; accepted draft tokens are coloured."""
    for text, accepted in event.pieces:
      if self.colours:
        style = _ACCEPTED if accepted else ""
        self._console.print(Text(text, style=style), end="")
      else:
        sys.stdout.write(text)
    sys.stdout.flush()

  def line(self, text: str = "") -> None:
    print(text, flush=True)

  def trees(self, trees: Iterable[Tree]) -> None:
    for tree in trees:
      self._console.print(tree)

  def figures(
    self,
    name: str,
    output: api.Output,
    plain: api.Output | None,
    same_tokens: bool,
  ) -> None:
    """A table of the run, beside plain decoding where that was measured.

    Args:
      name: of the drafter.
      output, plain: of the same prompts.
      same_tokens: whether the rule promises plain decoding's very tokens.
    """
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    columns = (
      {name: output} if plain is None else {name: output, "plain": plain}
    )
    for header in columns:
      table.add_column(header, justify="right")
    for label, cells in _lines(list(columns.values())):
      table.add_row(label, *cells)
    self._console.print(table)
    for text in _verdicts(output, plain, same_tokens):
      self._console.print(Text(text))
    if self.colours and output.stats.accepted:
      note = Text("accepted draft tokens", style=_ACCEPTED)
      self._console.print(Text("coloured: ") + note)


def _lines(outputs: list[api.Output]):
  every = [figures(o.stats, o.timings) for o in outputs]

  def row(label, form):
    return label, [form(f) for f in every]

  def rate(f):
    share = f["draft_acceptance_rate"]
    return str(f["accepted"]) + ("" if share is None else f" ({share:.0%})")

  yield row("tokens/s", lambda f: _number(f["tokens_per_s"]))
  yield row(
    "tokens per target pass", lambda f: f"{f['mean_acceptance_length']:.2f}"
  )
  yield row("new tokens", lambda f: str(f["new_tokens"]))
  yield row("target passes", lambda f: str(f["rounds"]))
  yield row("drafted", lambda f: str(f["drafted"]))
  yield row("accepted", rate)
  yield row("decode, s", lambda f: f"{f['decode_s']:.2f}")
  yield row("prefill, s", lambda f: f"{f['prefill_s']:.2f}")
  yield row("compile, s", lambda f: f"{f['compile_s']:.2f}")


def _number(value: float | None) -> str:
  return "-" if value is None else f"{value:.1f}"


def _verdicts(output: api.Output, plain: api.Output | None, same_tokens: bool):
  if output.lossless:
    yield f"rule {output.rule}: lossless, the output law is the target's"
  else:
    yield f"rule {output.rule}: LOSSY, the output law is not the target's"
  if plain is None:
    return
  fast = figures(output.stats, output.timings)["tokens_per_s"]
  slow = figures(plain.stats, plain.timings)["tokens_per_s"]
  if fast and slow:
    yield f"speedup in this run: {fast / slow:.2f}"
  if not same_tokens:
    yield "tokens are other draws than plain decoding's, so not compared"
    return
  pairs = list(zip(output.tokens, plain.tokens, strict=True))
  differ = [(i, _first_difference(*pair)) for i, pair in enumerate(pairs)]
  differ = [(i, at) for i, at in differ if at is not None]
  if not differ:
    yield "output identical to plain decoding's: yes"
  else:
    row, at = differ[0]
    where = f" of prompt {row + 1}" if len(pairs) > 1 else ""
    yield f"output identical to plain decoding's: no, from token {at}{where}"


def _first_difference(ours: tuple[int, ...], theirs: tuple[int, ...]):
  for at, (a, b) in enumerate(zip(ours, theirs, strict=False)):
    if a != b:
      return at
  return None if len(ours) == len(theirs) else min(len(ours), len(theirs))
