"""Jacobi decoding: the guesses of a plain simulation, and the battery."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specjax.acceptance import ExactMatch
from specjax.drafters import Jacobi
from specjax.models.table import TableModel
from specjax.testing import check_case, runs, tables
from specjax.testing.built_in import jacobi_case
from specjax.testing.oracle import greedy_walk
from specjax.types import ACCEPTED, Feedback, Params, Streams

MODEL = TableModel(5, 2)
TARGET = tables.random_table(1, 5, 2)
TABLE = np.asarray(TARGET["table"])


def says(text):
  return int(np.argmax(TABLE[tuple([0, 0, *text][-2:])]))


def iterate(prompt, new, size, most):
  """Jacobi decoding of a greedy text: [(guesses fed, of them kept)] a round.

  A guess is None where there was no pass yet; `most` are fed.
  """
  text, guesses, rounds = list(prompt), [None] * size, []
  limit = len(prompt) + new
  while len(text) < limit:
    fed = [text[-1] if x is None else x for x in guesses]
    fed = fed[: min(most, limit - len(text) - 1)]
    heard = [says(text + fed[:i]) for i in range(len(fed) + 1)]
    kept = 0
    while kept < len(fed) and fed[kept] == heard[kept]:
      kept += 1
    rounds.append((fed, kept))
    places = heard + guesses[len(heard) :]
    text += heard[: kept + 1]
    guesses = (places[kept + 1 :] + places[-1:] * size)[:size]
  return text, rounds


def test_guesses_and_rounds_are_those_of_the_iteration():
  rng = np.random.default_rng(0)
  prompts = [rng.integers(0, 5, 1 + i % 7).tolist() for i in range(24)]
  budgets = [(6, 6, 2, 4)[i % 4] for i in range(24)]
  new = [40 - i % 5 for i in range(24)]
  drafter = Jacobi(6)
  engine, params = runs.make_engine(MODEL, drafter), Params(TARGET)
  rows = runs.start(
    engine, params, prompts, new=new, size=48, max_draft=budgets
  )

  @jax.jit
  def guesses(rows):
    budget = jnp.clip(rows.limit - rows.length - 1, 0, rows.max_draft)
    keys = Streams(rows.key, rows.length)
    proposal, _ = drafter.propose(params, rows.draft, rows, budget, keys)
    return proposal.nodes.tokens, proposal.nodes.count

  shown = []
  while np.asarray(rows.active).any():
    shown.append([np.asarray(x) for x in guesses(rows)])
    rows = runs.advance(engine, params, rows, 1)
  got = runs.to_host(rows)
  for row, prompt in enumerate(prompts):
    text, rounds = iterate(prompt, new[row], 6, budgets[row])
    assert text[len(prompt) :] == greedy_walk(TABLE, prompt, new[row])
    assert got.tokens[row, : len(text)].tolist() == text
    assert got.rounds[row] == len(rounds)
    for (fed, kept), (tokens, count), record in zip(
      rounds, shown, got.history[row], strict=False
    ):
      assert tokens[row, : count[row]].tolist() == fed
      assert record[ACCEPTED] == kept
  accepted = got.history[..., ACCEPTED]
  assert set(np.unique(accepted)) >= {0, 1, 2, 4, 6}


def test_a_row_that_ran_no_round_keeps_its_guesses():
  drafter = Jacobi(3)
  state = jnp.asarray([[4, 2, -1], [1, 3, 0], [1, 3, 0]])
  logits = jax.nn.one_hot(jnp.asarray([[4, 0, 2, 1]] * 3), 5)
  logits = logits.at[2, 1].set([jnp.nan, -1.0, 0.0, 7.0, jnp.nan])
  budget = jnp.asarray([3, 3, 1])
  rows = runs.start(
    runs.make_engine(MODEL), Params(TARGET), [[1], [2], [3]], new=4, size=8
  )
  keys = Streams(rows.key, rows.length)
  proposal, _ = drafter.propose(Params(TARGET), state, rows, budget, keys)
  assert proposal.nodes.tokens.tolist() == [[4, 2, 1], [1, 3, 0], [1, 3, 0]]
  seen = Feedback(
    inputs=jnp.zeros((3, 4), jnp.int32),
    emitted=jnp.zeros((3, 4), jnp.int32),
    count=jnp.asarray([0, 2, 1]),
    taps={},
  )
  assert drafter.observe(Params(TARGET), state, seen) is state
  seen = dataclasses.replace(seen, nodes=proposal.nodes, logits=logits)
  moved = drafter.observe(Params(TARGET), state, seen)
  # Row 2 fed one guess: what slot 1 says, then its older third guess, twice.
  assert moved.tolist() == [[4, 2, -1], [2, 1, 1], [3, 0, 0]]


@pytest.mark.parametrize(
  "check",
  ["exact_tables", "ragged_tables", "late_rows", "limits"],
)
def test_battery(check):
  check_case(jacobi_case(ExactMatch()), check)


def test_a_chain_of_none_is_refused():
  with pytest.raises(ValueError, match="at least 1 for Jacobi, got 0"):
    Jacobi(0)
