"""Alpha by teacher forcing against walks over tables in numpy."""

import types

import jax.numpy as jnp
import numpy as np
import pytest

from specjax import acceptance, testing
from specjax.drafters import DraftModel, NGram
from specjax.evaluation.acceptance import alpha
from specjax.testing import runs
from specjax.testing.oracle import Setting, expected_acceptance, law_of
from specjax.types import Params

VOCAB, SIZE = 5, 40
MODEL = testing.TableModel(VOCAB, 2)
TARGET = testing.random_table(0, VOCAB)
DRAFT = testing.blur(TARGET, 1)


def texts(lengths=(30, 38, 12)):
  rng = np.random.default_rng(5)
  return [rng.integers(0, VOCAB, n).tolist() for n in lengths]


def forced(engine, params, given, prompt, setting):
  """Positions of texts whose first tokens are the prompt."""
  rows = runs.start(
    engine,
    params,
    [t[:prompt] for t in given],
    new=1,
    size=SIZE,
    settings=setting,
  )
  tokens = np.zeros((len(given), SIZE), np.int32)
  for line, text in zip(tokens, given, strict=True):
    line[: len(text)] = text
  rows = rows.replace(tokens=jnp.asarray(tokens))
  until = jnp.asarray([len(t) for t in given], jnp.int32)
  got = alpha.force(engine, params, rows, until)
  host = {name: np.asarray(value) for name, value in vars(got).items()}
  return types.SimpleNamespace(**host), alpha.summarize(got)


def walk(table, text, at, setting):
  """The law after the tokens before position `at`, by hand."""
  context = [0, 0, *text[:at]][-2:]
  return law_of(np.asarray(table["table"])[tuple(context)], setting)


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize(
  "setting",
  [Setting(0.0), Setting(1.0), Setting(0.6, top_k=3), Setting(1.0, top_p=0.8)],
)
def test_a_draft_model_matches_the_walk(setting, depth):
  engine = runs.make_engine(
    MODEL, DraftModel(MODEL, depth), acceptance.Rejection()
  )
  given, prompt = texts(), 4
  got, figures = forced(engine, Params(TARGET, DRAFT), given, prompt, setting)
  overlaps, greedy = [], Setting(0.0)
  for row, text in enumerate(given):
    for at in range(SIZE):
      inside = prompt <= at < len(text)
      assert got.seen[row, at] == got.proposed[row, at] == inside
      if not inside:
        assert got.rejection[row, at] == got.exact_match[row, at] == 0
        continue
      p, q = (walk(t, text, at, setting) for t in (TARGET, DRAFT))
      overlaps.append(expected_acceptance(p, q, "rejection"))
      assert got.rejection[row, at] == pytest.approx(overlaps[-1], abs=1e-5)
      match = expected_acceptance(p, q, "exact_match")
      assert got.exact_match[row, at] == pytest.approx(match, abs=1e-5)
      entropy = -(p[p > 0] * np.log(p[p > 0])).sum()
      assert got.entropy[row, at] == pytest.approx(entropy, abs=1e-5)
      tops = [walk(t, text, at, greedy).argmax() for t in (TARGET, DRAFT)]
      assert got.agrees[row, at] == (tops[0] == tops[1])
  assert figures.alpha == pytest.approx(np.mean(overlaps), abs=1e-5)
  assert figures.positions == len(overlaps) == 26 + 34 + 8
  assert figures.share_proposed == 1.0
  assert len(figures.by_text) == 3


def test_lookup_by_hand():
  # By position 2..9, matching the last one or two tokens, latest first:
  #   text       0 1 2 0 1 3 0 1 3 3
  #   guess          - - 1 2 - 1 3 0
  # "-" proposes nothing: token 1, 2 and 3 come there for the first time.
  text = [0, 1, 2, 0, 1, 3, 0, 1, 3, 3]
  guesses = {4: 1, 5: 2, 7: 1, 8: 3, 9: 0}
  engine = runs.make_engine(MODEL, NGram(2, 1, 2))
  setting = Setting(1.0)
  got, figures = forced(engine, Params(TARGET), [text], 2, setting)
  assert np.flatnonzero(got.proposed[0]).tolist() == list(guesses)
  assert np.flatnonzero(got.seen[0]).tolist() == list(range(2, 10))
  values = []
  for at, token in guesses.items():
    p = walk(TARGET, text, at, setting)
    values.append(p[token])
    assert got.rejection[0, at] == pytest.approx(p[token], abs=1e-6)
    assert got.exact_match[0, at] == pytest.approx(p[token], abs=1e-6)
    assert got.agrees[0, at] == (token == p.argmax())
  assert figures.alpha == pytest.approx(np.mean(values), abs=1e-6)
  assert figures.share_proposed == pytest.approx(5 / 8)


def test_a_text_without_a_proposal_has_no_alpha():
  engine = runs.make_engine(MODEL, NGram(2, 2, 2))
  text = [[0, 1, 2, 3, 4]]
  _, figures = forced(engine, Params(TARGET), text, 2, Setting(1.0))
  assert figures.alpha is None and figures.by_text == (None,)
  assert figures.share_proposed == 0 and figures.entropy_nats > 0
  with pytest.raises(ValueError, match="no text"):
    forced(engine, Params(TARGET), [[0, 1, 2]], 3, Setting(1.0))
