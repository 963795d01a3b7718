"""The walkthrough's printed tables to the digit, and its plain loop."""

import numpy as np
import pytest

from specjax.theory import acceptance, speedup, toy_language

# Samples, then total variation and chi-square's p of the three samplers.
PRINTED = {
  1_000: [(0.1631, 0.0564), (0.1630, 0.6063), (0.2099, 0.0000)],
  10_000: [(0.0545, 0.0546), (0.0524, 0.0995), (0.1199, 0.0000)],
}
# Draft length, alpha, tokens a pass, eq. 1 at that alpha.
LENGTHS = [
  (1, 0.785, 1.785, 1.785),
  (2, 0.782, 2.396, 2.393),
  (3, 0.784, 2.887, 2.878),
  (4, 0.781, 3.254, 3.242),
  (6, 0.781, 3.782, 3.760),
  (8, 0.780, 4.067, 4.054),
]


@pytest.mark.parametrize("count", PRINTED)
def test_sampler_table(count):
  fits = toy_language.sampler_table(count)
  assert [fit.sampler for fit in fits] == [
    "target only",
    "speculative",
    "buggy",
  ]
  ours = [(round(f.variation, 4), round(f.p_value, 4)) for f in fits]
  assert ours == PRINTED[count]


def test_acceptance_table():
  for row, printed in zip(
    toy_language.acceptance_table(), LENGTHS, strict=True
  ):
    formula = speedup.tokens_per_pass(row.alpha, row.num_speculative_tokens)
    ours = (row.num_speculative_tokens, row.alpha, row.tokens, float(formula))
    assert tuple(round(x, 3) for x in ours) == printed


def test_laws():
  target, draft = toy_language.laws()
  np.testing.assert_allclose(
    acceptance.acceptance(target, draft),
    [0.672, 0.692, 0.856, 0.863],
    atol=5e-4,
  )
  law = toy_language.joint()
  assert law.sum() == pytest.approx(1.0)
  # Tokens 2, 0, 3, 1.
  chance = target[0, 2] * target[2, 0] * target[0, 3] * target[3, 1]
  assert law[((2 * 4 + 0) * 4 + 3) * 4 + 1] == pytest.approx(chance)


def _loop(rng, count, gamma, biased):
  """One draw after another, as the walkthrough writes it."""
  target, draft = toy_language.laws()

  def sample(weights):
    value = rng.random() * weights.sum()
    return int(np.searchsorted(np.cumsum(weights), value, side="right"))

  def step(previous):
    tokens, last = [], previous
    for _ in range(gamma):
      last = sample(draft[last])
      tokens.append(last)
    for i, token in enumerate(tokens):
      p, q = target[previous], draft[previous]
      if rng.random() >= min(1.0, p[token] / q[token]):
        return [*tokens[:i], sample(p if biased else np.maximum(p - q, 0))]
      previous = token
    return [*tokens, sample(target[previous])]

  samples = []
  for _ in range(count):
    tokens = []
    while len(tokens) < 4:
      tokens += step(tokens[-1] if tokens else 0)
    samples.append(int("".join(map(str, tokens[:4])), 4))
  return samples


@pytest.mark.parametrize("gamma, biased", [(1, False), (2, True), (5, False)])
def test_every_sample_is_the_plain_loop_s(gamma, biased):
  expected = _loop(np.random.default_rng(9), 400, gamma, biased)
  stream = toy_language._Stream(np.random.default_rng(9))
  ours = toy_language._speculative(stream, 400, gamma, biased)
  assert ours.tolist() == expected


def test_samples_run_on_over_windows(monkeypatch):
  whole = toy_language.sampler_table(500)
  monkeypatch.setattr(toy_language, "_WINDOW", 97)
  assert toy_language.sampler_table(500) == whole
