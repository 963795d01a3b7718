"""A batch played out round by round: rows end apart, and others may follow.

The closed form of `rounds.speculative_round` keeps every row running. Here
each row gains what its own draws give it, so that rows end at different times:
passes over the last ones read the weights for few. A queue of requests refills
the lanes (continuous batching); without one the batch drains.
"""

import dataclasses
import functools

import jax
import numpy as np
from jaxtyping import Float, Int, Real

from specjax.theory import roofline, rounds
from specjax.theory.devices import Device
from specjax.theory.roofline import Pass, Setup
from specjax.theory.rounds import Drafter
from specjax.theory.shapes import ModelShape

_ROUNDS = 32  # drawn at a time


@dataclasses.dataclass(frozen=True)
class Load:
  """What is asked of a batch.

  Attributes:
    lanes: rows that run together.
    requests: in all; as many as lanes, the batch drains.
    prompt_tokens: context that each request starts with.
    new_tokens: that each request is for.
  """

  lanes: int
  requests: int
  prompt_tokens: int
  new_tokens: int


@dataclasses.dataclass(frozen=True)
class Simulated:
  """Totals of a batch; a draft is one row's share of a round.

  Counts are whole where they were drawn, means where they were expected (see
  `batch_expectation`).

  Attributes:
    tokens: asked for and given.
    drafts: of all rows.
    accepted_at: drafts of which position i was kept.
    seconds, draft_seconds: of the whole run, and of drafting in it.
    arithmetic_seconds, verify_seconds: of the target's passes.
    operations: of all devices.
    plain_seconds, plain_operations: of plain decoding under the same load.
  """

  tokens: int
  drafts: int | float
  accepted_at: Real[np.ndarray, "G"]
  seconds: float
  draft_seconds: float
  arithmetic_seconds: float
  verify_seconds: float
  operations: float
  plain_seconds: float
  plain_operations: float

  @property
  def drafted(self) -> int | float:
    """Draft tokens proposed."""
    return self.drafts * len(self.accepted_at)

  @property
  def accepted(self) -> int | float:
    """Draft tokens kept."""
    return self.accepted_at.sum().item()

  @property
  def speedup(self) -> float:
    """Plain decoding's seconds over these."""
    return self.plain_seconds / self.seconds

  @property
  def mean_acceptance_length(self) -> float:
    """Tokens a draft, the extra one counted, as vLLM prints it."""
    return 1 + self.accepted / self.drafts

  @property
  def acceptance_per_position(self) -> Float[np.ndarray, "G"]:
    """Unconditional, over all drafts."""
    return self.accepted_at / self.drafts

  @property
  def draft_share(self) -> float:
    """Of the time."""
    return self.draft_seconds / self.seconds

  @property
  def idle_share(self) -> float:
    """Of the target's passes in which its arithmetic units wait."""
    return 1 - self.arithmetic_seconds / self.verify_seconds

  @property
  def operations_factor(self) -> float:
    """Arithmetic over plain decoding's for the same tokens."""
    return self.operations / self.plain_operations

  @property
  def tokens_per_second(self) -> float:
    """Of the whole batch."""
    return self.tokens / self.seconds


@dataclasses.dataclass(frozen=True)
class Simulator:
  """A target, what drafts for it, and where both run.

  Attributes:
    conditional: chance of each position of a draft, given those before it; its
      length is the number of speculative tokens.
    draft_setup: None runs the draft as the target.
  """

  target: ModelShape
  drafter: Drafter
  device: Device
  setup: Setup
  conditional: tuple[float, ...]
  draft_setup: Setup | None = None

  def run(self, load: Load, seed: int = 0) -> Simulated:
    """Plays one load out.

    The time of a round is that of its active rows at their mean context. Tokens
    past what a row was asked for are cut.
    """
    waiting = load.requests - load.lanes
    if waiting < 0:
      raise ValueError(
        f"{load.requests} requests leave some of {load.lanes} lanes empty"
      )
    rng = np.random.default_rng(seed)
    play = self._refilled if waiting else self._drained
    return self._total(load, *play(load, rng))

  def _drained(self, load: Load, rng: np.random.Generator):
    """Rows that nobody follows, each by itself: active, context, kept_at."""
    chances, parts = np.asarray(self.conditional), []
    done = np.zeros(load.lanes, np.int64)
    while (done < load.new_tokens).any():
      drawn = rng.random((_ROUNDS, load.lanes, len(chances))) < chances
      parts.append(np.logical_and.accumulate(drawn, -1))
      done += (1 + parts[-1].sum(-1)).sum(0)
    kept = np.concatenate(parts)
    gains = 1 + kept.sum(-1)
    before = np.cumsum(gains, 0) - gains
    running = before < load.new_tokens
    active = running.sum(1)
    going = active > 0
    held = np.where(running, before, 0).sum(1)[going] / active[going]
    return active[going], load.prompt_tokens + held, kept[running].sum(0)

  def _refilled(self, load: Load, rng: np.random.Generator):
    """Round by round, with a queue: active, context, kept_at."""
    chances = np.asarray(self.conditional)
    active, context = [], []
    left = np.full(load.lanes, load.new_tokens)
    waiting = load.requests - load.lanes
    kept_at = np.zeros(len(chances), np.int64)
    while (running := left > 0).any():
      count = int(running.sum())
      kept = np.cumprod(rng.random((count, len(chances))) < chances, 1)
      kept_at += kept.sum(0, dtype=np.int64)
      active.append(count)
      done = load.new_tokens - left[running]
      context.append(load.prompt_tokens + done.mean())
      left[running] = np.maximum(left[running] - 1 - kept.sum(1), 0)
      waiting = _refill(left, running, waiting, load.new_tokens)
    return np.asarray(active), np.asarray(context), kept_at

  def _total(self, load, active, context, kept_at) -> Simulated:
    gamma = len(self.conditional)
    draft_setup = self.draft_setup or self.setup
    place = (self.device, self.setup)
    drafting = _figures(
      self.drafter, self.device, draft_setup, active, context, gamma
    )
    verifying = _figures(self.target, *place, active, context, gamma + 1)
    plain = _figures(self.target, *place, *plain_rounds(load), 1)
    draft_seconds = drafting["seconds"]
    operations = drafting["operations"] * draft_setup.ways
    return Simulated(
      tokens=load.requests * load.new_tokens,
      drafts=int(active.sum()),
      accepted_at=kept_at,
      seconds=draft_seconds + verifying["seconds"],
      draft_seconds=draft_seconds,
      arithmetic_seconds=verifying["arithmetic_seconds"],
      verify_seconds=verifying["seconds"],
      operations=operations + verifying["operations"] * self.setup.ways,
      plain_seconds=plain["seconds"],
      plain_operations=plain["operations"] * self.setup.ways,
    )


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _passes(model, device, setup, active, context, queries) -> Pass:
  if isinstance(model, Drafter):
    return rounds.whole_draft(model, device, setup, active, context, queries)
  return roofline.model_pass(model, device, setup, active, context, queries)


def _figures(
  model: ModelShape | Drafter, device, setup, active, context, queries
) -> dict[str, float]:
  """Sums over rounds of a target's passes, or of whole drafts of `queries`.

  Padded, so that few programs serve all round counts.
  """
  count = len(active)
  loads = np.zeros((2, count + -count % 512), np.float32)
  loads[:, :count] = active, context
  figures = _passes(model, device, setup, *loads, queries)
  return {
    name: float(np.asarray(values, np.float64)[:count].sum())
    for name, values in figures._asdict().items()
  }


def _refill(left, running, waiting, new_tokens) -> int:
  """Gives free lanes to waiting requests; how many still wait."""
  free = np.flatnonzero(running & (left == 0))[:waiting]
  left[free] = new_tokens
  return waiting - len(free)


def plain_rounds(
  load: Load,
) -> tuple[Int[np.ndarray, "R"], Float[np.ndarray, "R"]]:
  """Active rows and mean context of each pass of plain decoding.

  Rows start and end together, wave after wave; the last wave may be smaller.
  """
  full, rest = divmod(load.requests, load.lanes)
  waves = [load.lanes] * full + [rest] * bool(rest)
  context = load.prompt_tokens + np.arange(load.new_tokens, dtype=np.float64)
  return np.repeat(waves, load.new_tokens), np.tile(context, len(waves))
