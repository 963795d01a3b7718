"""The loop with counted drafts on table models, against walks in numpy."""

from collections import Counter

import jax.numpy as jnp
import numpy as np
import pytest

from specjax import testing
from specjax.evaluation.reproduction import count_drafts, loop_and_alpha
from specjax.evaluation.reproduction.count_drafts import CountDraft
from specjax.evaluation.reproduction.loop_and_alpha import Spoken
from specjax.testing.oracle import Setting, expected_acceptance, law_of
from specjax.types import Params

VOCAB, GAMMA, PROMPT, NEW = 6, 3, 8, 24
STEPS = np.random.default_rng(3).zipf(2.5, 4000)
TEXT = (np.cumsum(STEPS) % (VOCAB - 1)).astype(np.int32)  # all but the last


def test_counts():
  single, pairs = (
    Counter(TEXT.tolist()),
    Counter(zip(TEXT.tolist(), TEXT[1:].tolist(), strict=False)),
  )
  lone = np.exp(np.asarray(count_drafts.unigram(TEXT, VOCAB), np.float64))
  both = np.exp(np.asarray(count_drafts.bigram(TEXT, VOCAB), np.float64))
  for last in range(VOCAB):
    for token in range(VOCAB):
      assert lone[last, token] == pytest.approx(single[token])
      # Nothing follows the last token of the vocabulary.
      follows = single[token] if last == VOCAB - 1 else pairs[last, token]
      assert both[last, token] == pytest.approx(follows)


TARGET = testing.random_table(0, VOCAB, 2)
TABLES = {
  "unigram": count_drafts.unigram(TEXT, VOCAB),
  "bigram": count_drafts.bigram(TEXT, VOCAB),
}
PROMPTS = np.random.default_rng(4).integers(0, VOCAB, (64, PROMPT), np.int32)


def speak(draft, temperature):
  return loop_and_alpha.speak(
    testing.TableModel(VOCAB, 2),
    CountDraft(GAMMA),
    Params(TARGET, TABLES[draft]),
    PROMPTS,
    new_tokens=NEW,
    temperature=temperature,
    seed=0,
  )


def walk(texts, draft, temperature):
  """sum min(p, q) at every new token, by hand."""
  setting = Setting(temperature)
  target, table = np.asarray(TARGET["table"]), np.asarray(TABLES[draft])
  chance = np.zeros((len(texts), NEW))
  for row, text in enumerate(texts.tolist()):
    for at in range(NEW):
      *_, before, last = text[: PROMPT + at]
      p = law_of(target[before, last], setting)
      q = law_of(table[last], setting)
      chance[row, at] = expected_acceptance(p, q, "rejection")
  return chance


@pytest.mark.parametrize("draft", TABLES)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_loop_keeps_what_alpha_says(draft, temperature):
  spoken = speak(draft, temperature)
  assert spoken.texts.shape == (64, PROMPT + NEW)
  assert spoken.stats.emitted == 64 * NEW
  np.testing.assert_array_equal(spoken.texts[:, :PROMPT], PROMPTS)
  chance = walk(spoken.texts, draft, temperature)

  read = spoken.texts[:, :-1]
  target = np.asarray(TARGET["table"])[read[:, :-1], read[:, 1:]]
  got = loop_and_alpha.chances(
    jnp.asarray(target)[:, PROMPT - 2 :],
    TABLES[draft][read][:, PROMPT - 1 :],
    temperature,
  )
  np.testing.assert_allclose(got, chance, atol=1e-5)

  found = loop_and_alpha.agreement(spoken, got)
  gap = found.counted - found.predicted
  if temperature == 0.0:
    assert (gap, found.standard_error) == (pytest.approx(0.0), 0.0)
    # Every judged token but the refused ones is the draft's.
    assert chance[spoken.judged].sum() == spoken.stats.accepted
  else:
    assert 0.0 < found.standard_error < 0.05
    assert abs(gap) < 4 * found.standard_error
    # Over all tokens, judged or not, the mean is another.
    assert found.predicted != pytest.approx(1 + GAMMA * chance.mean(), rel=0.1)
  # Another draft's chances are not what the loop did.
  other = next(name for name in TABLES if name != draft)
  chance = walk(spoken.texts, other, temperature)
  gap = found.counted - loop_and_alpha.agreement(spoken, chance).predicted
  assert abs(gap) > 4 * found.standard_error


def test_judged_by_hand():
  # drafted, accepted, emitted, width; the second row stops after two rounds.
  history = np.asarray(
    [
      [(3, 1, 2, 4), (3, 3, 4, 4), (0, 0, 1, 1)],
      [(3, 0, 1, 4), (3, 2, 3, 4), (9, 9, 9, 9)],
    ]
  )
  spoken = Spoken(np.zeros((2, 12), int), 5, history, np.asarray([3, 2]))
  judged = [[1, 1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 0, 0, 0]]
  np.testing.assert_array_equal(spoken.judged, np.asarray(judged, bool))
  found = loop_and_alpha.agreement(spoken, np.full((2, 7), 0.5))
  assert found.counted == pytest.approx(11 / 5)
  assert found.predicted == pytest.approx(1 + 9 * 0.5 / 5)
  assert found.standard_error == pytest.approx(np.sqrt(9 * 0.25) / 5)
