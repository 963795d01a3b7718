"""A toy language sampled draw for draw with numpy's generator, but fast.

Four tokens, a random bigram target and a blurred draft: the published
walkthrough's setting, whose printed tables depend on numpy's bit stream. One
sample after another reads a number of draws that depends on the draws, so the
plain program is a slow loop. Here what a sample would be is computed for every
place of the stream at once, and the places where samples really begin are then
followed.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

SIZE = 4  # tokens of the vocabulary
LENGTH = 4  # tokens of a sample
START = 0  # context of the first token
SAMPLERS = ("target only", "speculative", "buggy")
_WINDOW = 1 << 16
_PLACES_A_SAMPLE = 16  # more than a sample reads on average


def laws() -> tuple[Float[np.ndarray, "V V"], Float[np.ndarray, "V V"]]:
  """The target's and the draft's next-token laws, a row a context."""
  setup = np.random.default_rng(2)
  target = setup.dirichlet(np.ones(SIZE), size=SIZE)
  noise = setup.dirichlet(np.ones(SIZE), size=SIZE)
  return target, 0.55 * target + 0.45 * noise


def joint_law(
  law: Float[np.ndarray, "V V"], start: int, length: int
) -> Float[np.ndarray, "S"]:
  """Law of the next tokens of a bigram model, drawn one by one.

  Args:
    law: of the next token, a row a last token.
    start: the last token before them.
    length: how many; S = V^length texts are numbered in base V, their first
      token first.
  """
  texts = law[start]
  for _ in range(length - 1):
    texts = (texts.reshape(-1, len(law))[..., None] * law).reshape(-1)
  return texts


def joint() -> Float[np.ndarray, "S"]:
  """Exact law of a sample."""
  return joint_law(laws()[0], START, LENGTH)


class _Rows(NamedTuple):
  """Laws, or weights, ready to be drawn from by row."""

  sums: Float[np.ndarray, "V"]
  bounds: Float[np.ndarray, "V V"]

  def draw(self, row, uniform):
    value = uniform * self.sums[row]
    return (self.bounds[row] <= value[:, None]).sum(1)


def _rows(weights) -> _Rows:
  return _Rows(
    np.asarray([row.sum() for row in weights]), np.cumsum(weights, 1)
  )


class _Stream:
  """Uniforms of a generator in order, with a view of what comes next."""

  def __init__(self, generator: np.random.Generator):
    self._generator = generator
    self._held = np.empty(0)

  def peek(self, count: int) -> Float[np.ndarray, "N"]:
    missing = count - len(self._held)
    if missing > 0:
      more = self._generator.random(missing)
      self._held = np.concatenate([self._held, more])
    return self._held[:count]

  def skip(self, count: int) -> None:
    self._held = self._held[count:]


class _Step(NamedTuple):
  """Rounds of speculation, one for each place: tokens, kept, draws read."""

  tokens: Int[np.ndarray, "N K+1"]
  kept: Int[np.ndarray, "N"]
  read: Int[np.ndarray, "N"]


class _Chain:
  """The two laws and the rule, its replacement right or wrong."""

  def __init__(self, biased: bool = False):
    target, draft = laws()
    self.target, self.draft = _rows(target), _rows(draft)
    self.chance = np.minimum(1.0, target / draft)
    left = target if biased else np.maximum(target - draft, 0.0)
    self.left = _rows(left)

  def step(self, uniforms, places, previous, gamma: int) -> _Step:
    """A round of gamma drafted tokens from each place and context."""
    contexts = [previous]
    for i in range(gamma):
      contexts.append(self.draft.draw(contexts[-1], uniforms[places + i]))
    going = np.ones(len(places), bool)
    kept = np.zeros(len(places), np.int64)
    for i in range(gamma):
      chance = self.chance[contexts[i], contexts[i + 1]]
      going = going & (uniforms[places + gamma + i] < chance)
      kept += going
    read = gamma + np.minimum(kept + 1, gamma) + 1
    path = np.stack(contexts, 1)
    row = np.take_along_axis(path, kept[:, None], 1)[:, 0]
    last = uniforms[places + read - 1]
    token = np.where(
      kept < gamma, self.left.draw(row, last), self.target.draw(row, last)
    )
    tokens = np.concatenate([path[:, 1:], path[:, :1]], 1)
    tokens[np.arange(len(places)), kept] = token
    return _Step(tokens, kept, read)

  def samples(self, uniforms, count: int, gamma: int):
    """Samples that begin at places 0 to count - 1, and draws each reads."""
    code = np.zeros(count, np.int64)
    length, read = np.zeros_like(code), np.zeros_like(code)
    previous = np.full(count, START)
    unfinished = np.arange(count)
    while len(unfinished):
      at = unfinished
      step = self.step(uniforms, at + read[at], previous[at], gamma)
      for i in range(gamma + 1):
        wanted = (i <= step.kept) & (length[at] < LENGTH)
        grown = code[at] * SIZE + step.tokens[:, i]
        code[at] = np.where(wanted, grown, code[at])
        length[at] += wanted
      read[at] += step.read
      previous[at] = step.tokens[np.arange(len(at)), step.kept]
      unfinished = at[length[at] < LENGTH]
    return code, read


def _plain(stream: _Stream, count: int) -> Int[np.ndarray, "N"]:
  uniforms = stream.peek(count * LENGTH).reshape(count, LENGTH)
  target = _rows(laws()[0])
  code, previous = np.zeros(count, np.int64), np.full(count, START)
  for i in range(LENGTH):
    previous = target.draw(previous, uniforms[:, i])
    code = code * SIZE + previous
  stream.skip(count * LENGTH)
  return code


def _speculative(
  stream: _Stream, count: int, gamma: int, biased: bool
) -> Int[np.ndarray, "N"]:
  chain, found = _Chain(biased), []
  margin = LENGTH * (2 * gamma + 1)
  while len(found) < count:
    window = min(_WINDOW, _PLACES_A_SAMPLE * (count - len(found)))
    uniforms = stream.peek(window + margin)
    code, read = chain.samples(uniforms, window, gamma)
    codes, reads = code.tolist(), read.tolist()
    place = 0
    while place < window and len(found) < count:
      found.append(codes[place])
      place += reads[place]
    stream.skip(place)
  return np.asarray(found)


class Fit(NamedTuple):
  """Samples against the exact law: total variation and chi-square's p."""

  sampler: str
  variation: float
  p_value: float


def compare(name: str, samples: Int[np.ndarray, "N"]) -> Fit:
  """Cells that expect fewer than 5 are pooled; p by Wilson and Hilferty."""
  law, total = joint(), len(samples)
  counts = np.bincount(samples, minlength=len(law))
  expected = total * law
  often = expected >= 5
  observed, wanted = counts[often], expected[often]
  if not often.all():
    observed = np.append(observed, counts[~often].sum())
    wanted = np.append(wanted, expected[~often].sum())
  freedom = len(wanted) - 1
  ratio = ((observed - wanted) ** 2 / wanted).sum() / freedom
  spread = 2 / (9 * freedom)
  score = (ratio ** (1 / 3) - (1 - spread)) / math.sqrt(spread)
  variation = 0.5 * np.abs(counts / total - law).sum()
  return Fit(name, float(variation), 0.5 * math.erfc(score / math.sqrt(2)))


def sampler_table(
  count: int, seed: int | None = None, gamma: int = 3
) -> list[Fit]:
  """The three samplers, one after another on one stream.

  Args:
    count: samples of each.
    seed: of numpy's generator; None is the count, as printed.

  Returns:
    A `Fit` each: drawn from the target, speculative, and with a replacement
    that is drawn from p (biased).
  """
  stream = _Stream(np.random.default_rng(count if seed is None else seed))
  samples = (
    _plain(stream, count),
    _speculative(stream, count, gamma, biased=False),
    _speculative(stream, count, gamma, biased=True),
  )
  return [compare(*pair) for pair in zip(SAMPLERS, samples, strict=True)]


class Acceptance(NamedTuple):
  """Rounds of one draft length in one long text.

  Attributes:
    alpha: kept over judged tokens; a round judges up to its first refusal.
    tokens: a target pass.
  """

  num_speculative_tokens: int
  alpha: float
  tokens: float


def acceptance_table(
  lengths: tuple[int, ...] = (1, 2, 3, 4, 6, 8),
  rounds: int = 50_000,
  seed: int = 42,
) -> list[Acceptance]:
  """Acceptance by draft length, all lengths in turn on one stream."""
  stream = _Stream(np.random.default_rng(seed))
  return [_rounds(stream, gamma, rounds) for gamma in lengths]


def _rounds(stream: _Stream, gamma: int, rounds: int) -> Acceptance:
  chain, kept = _Chain(), []
  context, places = START, np.repeat(np.arange(_WINDOW), SIZE)
  contexts = np.tile(np.arange(SIZE), _WINDOW)
  while len(kept) < rounds:
    uniforms = stream.peek(_WINDOW + 2 * gamma + 1)
    step = chain.step(uniforms, places, contexts, gamma)
    after = step.tokens[np.arange(len(places)), step.kept].tolist()
    kept_at, reads = step.kept.tolist(), step.read.tolist()
    place = 0
    while place < _WINDOW and len(kept) < rounds:
      entry = place * SIZE + context
      kept.append(kept_at[entry])
      context = after[entry]
      place += reads[entry]
    stream.skip(place)
  accepted = np.asarray(kept)
  judged = np.minimum(accepted + 1, gamma).sum()
  return Acceptance(
    gamma, float(accepted.sum() / judged), float((accepted + 1).mean())
  )
