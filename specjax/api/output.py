"""What comes back: texts, tokens, figures and times."""

import dataclasses

from specjax import metrics
from specjax.metrics import Stats


@dataclasses.dataclass(frozen=True)
class Timings:
  """Seconds, each measured until the device was done.

  Attributes:
    compile_s: tracing and compiling; near 0 where the same sizes ran before.
    prefill_s: reading the prompts.
    decode_s: rounds.
  """

  compile_s: float = 0.0
  prefill_s: float = 0.0
  decode_s: float = 0.0


@dataclasses.dataclass(frozen=True)
class Output:
  """Results, one entry a prompt and in their order.

  Attributes:
    texts: answers without special tokens, cut before a stop string; empty
      where the model has no tokenizer.
    tokens: all new token ids, the one that ended the row included.
    finish_reasons: "eos", "stop", "length", or None where it was interrupted.
    row_stats: figures of each row.
    row_timings: of each row: the dispatches that it took part in.
    timings: of the whole call.
    logprobs: of `tokens`, raw (before temperature and filters), on request.
    rule: name of the acceptance rule.
    lossless: whether the output law is exactly the target's.
    lane_use: share of the batch's lanes that running rows used.
  """

  texts: tuple[str, ...]
  tokens: tuple[tuple[int, ...], ...]
  finish_reasons: tuple[str | None, ...]
  row_stats: tuple[Stats, ...]
  row_timings: tuple[Timings, ...]
  timings: Timings
  logprobs: tuple[tuple[float, ...], ...] | None
  rule: str
  lossless: bool
  lane_use: float

  @property
  def stats(self) -> Stats:
    """Figures of all rows pooled."""
    return metrics.pool(list(self.row_stats))


@dataclasses.dataclass(frozen=True)
class Event:
  """What one dispatch added to one row.

  Attributes:
    index: place of the prompt.
    tokens: new token ids.
    accepted: which of them are accepted draft tokens.
    pieces: (text, whether accepted) that became whole, in order. Text that may
      still turn out to begin a stop string is held back.
    finish_reason: set in the row's last event.
  """

  index: int
  tokens: tuple[int, ...]
  accepted: tuple[bool, ...]
  pieces: tuple[tuple[str, bool], ...]
  finish_reason: str | None

  @property
  def text(self) -> str:
    """New text."""
    return "".join(text for text, _ in self.pieces)
