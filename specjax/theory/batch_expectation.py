"""A batch that drains, in expectation: what `batch_simulation` draws.

Rows start together and gain tokens independently of one another, so that the
number still running in a round is binomial. Times are taken at the mean context
of the running rows, as the simulation does; that they are not linear in it
where reads and arithmetic meet is all that this leaves out. Computed in double
precision.
"""

import dataclasses

import jax
import numpy as np
from jaxtyping import Float
from scipy import stats

from specjax.theory import roofline, rounds
from specjax.theory.batch_simulation import Simulated, Simulator
from specjax.theory.shapes import ModelShape

# A round that a row reaches less often than this is left out, and a number of
# running rows that is less likely than the second.
_RARE = 1e-12
_UNLIKELY = 1e-18


@dataclasses.dataclass(frozen=True)
class Expected(Simulated):
  """Means of `Simulated`, and what one row sees.

  Attributes:
    rounds: until the last row is done.
    row_seconds: until a row of its own is done, where `seconds` is the last's.
  """

  rounds: float
  row_seconds: float

  @property
  def row_speedup(self) -> float:
    """A row's tokens a second over plain decoding's."""
    return self.plain_seconds / self.row_seconds

  @property
  def judged_acceptance_rate(self) -> float:
    """Kept over judged: a draft is judged up to its first refusal."""
    reached = np.concatenate([[self.drafts], self.accepted_at[:-1]])
    return float(self.accepted_at.sum() / reached.sum())


def row_progress(
  conditional: tuple[float, ...], new_tokens: int
) -> tuple[Float[np.ndarray, "R"], Float[np.ndarray, "R"]]:
  """One row, round by round.

  Returns:
    (chance that it still runs, its mean tokens done given that it does).
  """
  chances = np.asarray(conditional, np.float64)
  kept = np.concatenate([[1.0], np.cumprod(chances)])
  gains = kept * np.concatenate([1 - chances, [1.0]])  # of 1, 2, ... tokens
  law = np.zeros(new_tokens)  # of tokens done
  law[0] = 1.0
  steps = np.arange(new_tokens)
  running, done = [], []
  while (share := float(law.sum())) > _RARE:
    running.append(min(share, 1.0))
    done.append(float(law @ steps) / share)
    law = np.concatenate([[0.0], np.convolve(law, gains)])[:new_tokens]
  return np.asarray(running), np.asarray(done)


def expect(
  simulator: Simulator, rows: int, prompt_tokens: int, new_tokens: int
) -> Expected:
  """Means of `simulator.run(Load(rows, rows, prompt_tokens, new_tokens))`."""
  running, done = row_progress(simulator.conditional, new_tokens)
  counts = np.arange(1, rows + 1)
  chances = stats.binom.pmf(counts, rows, running[:, None])
  at, column = np.nonzero(chances > _UNLIKELY)
  weight, active = chances[at, column], counts[column].astype(np.float64)
  context = prompt_tokens + done[at]
  gamma, unconditional = (
    len(simulator.conditional),
    np.cumprod(np.asarray(simulator.conditional, np.float64)),
  )
  draft_setup = simulator.draft_setup or simulator.setup
  place = (simulator.device, simulator.setup)
  with jax.enable_x64(True):
    drafting = _figures(
      simulator.drafter, simulator.device, draft_setup, active, context, gamma
    )
    verifying = _figures(simulator.target, *place, active, context, gamma + 1)
    plain = _figures(
      simulator.target,
      *place,
      np.full(new_tokens, rows, np.float64),
      prompt_tokens + np.arange(new_tokens, dtype=np.float64),
      1,
    )
  seconds = drafting["seconds"] + verifying["seconds"]
  operations = drafting["operations"] * draft_setup.ways
  operations = operations + verifying["operations"] * simulator.setup.ways
  drafts = rows * float(running.sum())
  return Expected(
    tokens=rows * new_tokens,
    drafts=drafts,
    accepted_at=drafts * unconditional,
    seconds=float(weight @ seconds),
    draft_seconds=float(weight @ drafting["seconds"]),
    arithmetic_seconds=float(weight @ verifying["arithmetic_seconds"]),
    verify_seconds=float(weight @ verifying["seconds"]),
    operations=float(weight @ operations),
    plain_seconds=float(plain["seconds"].sum()),
    plain_operations=float(plain["operations"].sum()) * simulator.setup.ways,
    rounds=float(weight.sum()),
    # Of `rows` rows that are alike, each is among the active ones as often.
    row_seconds=float(weight @ (seconds * active)) / rows,
  )


def _figures(
  model: ModelShape | rounds.Drafter, device, setup, active, context, queries
) -> dict[str, Float[np.ndarray, "N"]]:
  """Of each target pass, or whole draft of `queries` tokens.

  Padded to powers of four, so that few programs serve all.
  """
  count = len(active)
  size = 4 ** -(-max(count - 1, 255).bit_length() // 2)
  padding = (0, size - count)
  active, context = np.pad(active, padding), np.pad(context, padding)
  if isinstance(model, rounds.Drafter):
    figures = rounds.whole_draft(model, device, setup, active, context, queries)
  else:
    figures = roofline.model_pass(
      model, device, setup, active, context, queries
    )
  return {
    name: np.asarray(values)[:count]
    for name, values in figures._asdict().items()
  }
