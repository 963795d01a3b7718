"""Table 3 in small, smaller still: its cells, and what moves them."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from specjax.evaluation.reproduction import Settings, registry, small_training
from specjax.evaluation.reproduction import leviathan2023_trained as trained
from specjax.evaluation.reproduction.small_training import Recipe

_RECIPE = Recipe(60, windows=4, context=24, rate=1e-2)
SIZES = trained.Sizes(
  vocab_size=256,
  target=(1, 32),
  draft=(1, 32),
  recipe=_RECIPE,
  draft_recipe=_RECIPE,
  prompts=12,
  prompt=8,
  new_tokens=24,
)
SENTENCE = b"the quick brown fox jumps over the lazy dog.\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
  path = tmp_path_factory.mktemp("text") / "text.txt"
  path.write_bytes(SENTENCE * 1_200)
  return trained.train(Settings(text_file=str(path)), SIZES)


@pytest.fixture(scope="module")
def found(made):
  said = []
  cells = list(trained.cells_of(made, Settings(say=said.append)))
  assert len(said) == 6
  return {cell.place: cell for cell in cells}


def test_published_numbers_are_those_of_table_3(found):
  published = {
    ("unigram", 0): (0.03, 0.10),
    ("unigram", 1): (0.03, 0.05),
    ("bigram", 0): (0.05, 0.18),
    ("bigram", 1): (0.05, 0.14),
    ("two layers", 0): (0.88, 0.27),
    ("two layers", 1): (0.89, 0.36),
  }
  for (name, t), (alpha, band) in published.items():
    cell = found[f"table 3, {name}, T = {t}: alpha"]
    assert cell.published == alpha and cell.group == "trained"
    assert cell.tolerance == pytest.approx(band)
    assert f"{SIZES.prompts * SIZES.new_tokens} tokens" in cell.note
  assert len(found) == 2 * (3 * 5 + 1) + 2


def test_alpha_of_the_counts_on_held_out_text(made, found):
  text = made.text.held_out
  size = SIZES.prompt + SIZES.new_tokens
  starts = np.linspace(0, len(text) - size, SIZES.prompts).astype(int)
  windows = np.stack([text[s : s + size] for s in starts])
  logits = small_training.logits(
    made.target, made.params, jnp.asarray(windows[:, :-1])
  )
  p = special.softmax(np.asarray(logits, np.float64), -1)
  training = made.text.training
  counts = np.zeros((256, 256))
  np.add.at(counts, (training[:-1], training[1:]), 1)
  single = np.bincount(training, minlength=256) / len(training)
  for name in ("unigram", "bigram"):
    overlaps, hits = [], []
    for row, window in enumerate(windows):
      for at in range(SIZES.prompt - 1, size - 1):
        followers = counts[window[at]]
        q = followers / followers.sum() if name == "bigram" else single
        overlaps.append(np.minimum(p[row, at], q).sum())
        hits.append(p[row, at].argmax() == q.argmax())
    cell = found[f"table 3 on held-out text, {name}, T = 1: alpha"]
    assert cell.ours == pytest.approx(np.mean(overlaps), abs=1e-4)
    cell = found[f"table 3 on held-out text, {name}, T = 0: alpha"]
    assert cell.ours == pytest.approx(np.mean(hits), abs=1e-9)


def test_what_must_hold_of_any_models(found):
  loops = [cell for place, cell in found.items() if "in the loop" in place]
  assert len(loops) == 6 and all(cell.agrees for cell in loops)
  for t in (0, 1):
    alphas = [
      found[f"table 3, {name}, T = {t}: alpha"].ours
      for name in ("unigram", "bigram", "two layers")
    ]
    steps = [place for place in found if f"T = {t}: steps" in place]
    assert alphas == sorted(alphas) and found[steps[0]].ours == 2.0


def test_speeds(made, found):
  share = made.drafts["two layers"].cost
  assert share == 1.0  # of weights: draft and target are of one size
  for name, cost in (("unigram", 0.0), ("bigram", 0.0), ("two layers", share)):
    alpha = found[f"table 3, {name}, T = 1: alpha"].ours
    tokens = 1 + alpha + alpha**2 + alpha**3
    place = f"equation 1, {name}, T = 1, gamma 3: tokens a pass"
    assert found[place].ours == pytest.approx(tokens, rel=1e-5)
    place = f"theorem 3.8, {name}, T = 1, gamma 3: speedup"
    assert found[place].ours == pytest.approx(tokens / (1 + 3 * cost), rel=1e-5)


def test_every_cell_moves(made, assert_every_cell_moves):
  assert_every_cell_moves(
    lambda settings: trained.cells_of(made, settings),
    [
      (
        "specjax.theory.acceptance:acceptance",
        lambda f: lambda p, q: 0 * f(p, q),
      ),
    ],
    but="bits a token",
  )


def test_the_paper_of_the_registry(made, monkeypatch):
  paper = registry.load("leviathan2023_trained")
  assert paper is trained.PAPER
  calls = []

  def train(settings, sizes):
    calls.append(sizes)
    return made

  monkeypatch.setattr(trained, "train", train)
  trained._trained.cache_clear()
  quick = Settings(quick=True)
  assert next(iter(paper.cells(quick))).place == (
    "held-out text, target: bits a token"
  )
  (figure,) = paper.figures(quick)
  trained._trained.cache_clear()
  assert calls == [trained.QUICK]  # cells and figures share it
  for (steps, bits), name in zip(
    figure.curves.values(), figure.curves, strict=True
  ):
    assert "1 layers of 32" in name and len(steps) == len(bits) == 60
    assert bits[-1] < bits[0] / 2
