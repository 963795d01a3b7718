"""What a run takes turns with: this project's methods, and its peers."""

import dataclasses
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import jax
from jaxtyping import Array, Key

from specjax import api
from specjax.checkpoints.loaded import LoadedModel
from specjax.evaluation import peers
from specjax.evaluation.records import Mode
from specjax.evaluation.runs.grid import Method
from specjax.text import Tokenizer

# Rounds a dispatch: an interrupt waits for no more than a few seconds.
_ROUNDS = 64
_WARM_TOKENS = 8


@dataclasses.dataclass(frozen=True)
class Decoded:
  """One measured answer, of whatever system; fields as in `Answer`."""

  text: str
  token_ids: tuple[int, ...]
  finish_reason: str | None
  passes: int
  rounds: tuple[tuple[int, int, int, int], ...]
  compile_s: float
  prefill_s: float
  decode_s: float


@runtime_checkable
class Decoder(Protocol):
  """What the run takes turns with."""

  @property
  def mode(self) -> Mode: ...

  def decode(
    self, ids: Sequence[int], max_new_tokens: int, key: Key[Array, ""]
  ) -> Decoded:
    """Decodes one prompt, timed until the result is there."""
    ...


@dataclasses.dataclass(frozen=True)
class OwnDecoder:
  """A method of this project, a prompt at a time.

  Attributes:
    capacity: room for every prompt of the run and its answer, so that all of
      them share compiled programs.
  """

  target: LoadedModel
  method: Method
  capacity: int

  @property
  def mode(self) -> Mode:
    return self.method.mode

  def stream(
    self,
    ids: Sequence[int],
    max_new_tokens: int,
    key: Key[Array, ""],
    **options: Any,
  ) -> api.Stream:
    """The stream of one prompt, not yet run."""
    return api.stream(
      self.target,
      [list(ids)],
      drafter=self.method.drafter,
      draft=self.method.draft,
      rule=self.method.rule,
      sampling=self.method.sampling,
      max_new_tokens=max_new_tokens,
      key=key,
      capacity=self.capacity,
      rounds_per_event=_ROUNDS,
      **options,
    )

  def decode(
    self, ids: Sequence[int], max_new_tokens: int, key: Key[Array, ""]
  ) -> Decoded:
    stream = self.stream(ids, max_new_tokens, key)
    for _ in stream:
      pass
    output = stream.output
    (stats,), (spent,) = output.row_stats, output.row_timings
    return Decoded(
      text=output.texts[0],
      token_ids=output.tokens[0],
      finish_reason=output.finish_reasons[0],
      passes=stats.rounds,
      rounds=stream.rounds[0],
      compile_s=spent.compile_s,
      prefill_s=spent.prefill_s,
      decode_s=spent.decode_s,
    )


class PeerDecoder:
  """Another system, which decodes in its own process while ours waits."""

  def __init__(self, peer: peers.Peer, mode: Mode, tokenizer: Tokenizer):
    self._peer, self._mode, self._tokenizer = peer, mode, tokenizer
    self._warm = False

  @property
  def mode(self) -> Mode:
    return self._mode

  def decode(
    self, ids: Sequence[int], max_new_tokens: int, key: Key[Array, ""]
  ) -> Decoded:
    if not self._warm:
      self._ask(ids, min(max_new_tokens, _WARM_TOKENS), 0)
      self._warm = True
    seed = int(jax.random.bits(key)) >> 1  # some systems take 31 bits
    got = self._ask(ids, max_new_tokens, seed)
    return Decoded(
      text=self._tokenizer.decode(got.token_ids),
      token_ids=got.token_ids,
      finish_reason=got.finish_reason,
      passes=got.passes,
      rounds=got.rounds,
      compile_s=0.0,
      prefill_s=got.prefill_s,
      decode_s=got.decode_s,
    )

  def _ask(
    self, ids: Sequence[int], max_new_tokens: int, seed: int
  ) -> peers.PeerAnswer:
    return self._peer.decode(
      ids,
      max_new_tokens,
      temperature=self._mode.temperature,
      seed=seed,
      eos_ids=self._tokenizer.eos_ids,
    )


def out_of_memory(error: BaseException) -> bool:
  """Whether an error says that memory ran out."""
  if isinstance(error, MemoryError):
    return True
  return isinstance(error, jax.errors.JaxRuntimeError) and (
    "RESOURCE_EXHAUSTED" in str(error)
  )
