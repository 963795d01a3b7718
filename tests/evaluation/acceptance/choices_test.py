"""The best choice of a drafter a round: by hand, by search, by real rounds."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest

from specjax.acceptance import ExactMatch
from specjax.drafters import DraftModel, NGramTree
from specjax.evaluation.acceptance import alpha
from specjax.evaluation.acceptance.choices import fewest_rounds
from specjax.testing import cases, runs
from specjax.types import Params


def test_the_longer_draft_is_not_always_the_one_to_take():
  # token   0 1 2 3 4 5 6 7
  # first   3 0 0 0 0 0 0 0     0-3, then one a round
  # second  1 0 5 0 0 0 0 0     0-1, 2-7
  kept = np.asarray([[3, 0, 0, 0, 0, 0, 0, 0], [1, 0, 5, 0, 0, 0, 0, 0]])
  found = fewest_rounds(kept)
  assert (found.tokens, found.alone, found.together) == (8, (5, 2), 2)
  assert found.used == (1, 1) and found.gain == 1.0
  kept[1, 0], kept[0, 0] = 0, 1
  found = fewest_rounds(kept)
  assert (found.alone, found.together, found.used) == ((7, 3), 2, (0, 1))
  assert found.gain == 1.5


def test_no_other_choices_need_fewer_rounds():
  rng = np.random.default_rng(0)
  for _ in range(50):
    size = int(rng.integers(1, 12))
    kept = rng.integers(0, 5, (3, size))

    @functools.cache
    def search(at, among=(0, 1, 2), kept=kept, size=size):
      if at >= size:
        return 0
      return 1 + min(search(at + int(kept[d, at]) + 1, among) for d in among)

    found = fewest_rounds(kept)
    assert found.together == search(0) == len(found.used)
    assert found.alone == tuple(search(0, (d,)) for d in range(3))
    at = 0
    for drafter in found.used:
      at += kept[drafter, at] + 1
    assert at >= size


def test_what_is_not_a_table_of_kept_nodes_is_refused():
  for kept, reason in (([[1, -1]], "got -1 in shape"), ([[]], "shape .1, 0")):
    with pytest.raises(ValueError, match=reason):
      fewest_rounds(np.asarray(kept, int))


def test_forced_positions_foretell_the_rounds_of_decoding():
  """Of a chain and of a tree; each alone takes the rounds that it takes."""
  model, target = cases.wide_world()
  prompts = cases.random_prompts(4, model.vocab_size, [9] * 12)
  options = dict(new=30, size=42, filters=())
  draft = cases.rough_draft(model, target)
  pairs = ((DraftModel(model, 4), draft), (NGramTree(8, 4, 1, 2, 4), None))
  kept, rounds = [], []
  for drafter, weights in pairs:
    engine = runs.make_engine(model, drafter, ExactMatch())
    params = Params(target, weights)
    rows = runs.start(engine, params, prompts, **options)
    done = runs.run(engine, params, prompts, **options)
    rounds.append(done.rounds)
    rows = rows.replace(tokens=jnp.asarray(done.tokens))
    until = jnp.asarray(done.length)
    seen = alpha.force(engine, params, rows, until, depth=4)
    kept.append(np.asarray(seen.kept)[:, 9:39])
  found = [fewest_rounds(np.stack(row)) for row in zip(*kept, strict=True)]
  alone = np.asarray([row.alone for row in found])
  np.testing.assert_array_equal(alone, np.stack(rounds, 1))
  assert any(row.together < min(row.alone) for row in found)
