"""Lookahead: the windows and pools of plain Python, and the battery."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specjax.acceptance import ExactMatch
from specjax.drafters import Lookahead, ngram_pool
from specjax.models.table import TableModel
from specjax.testing import check_case, runs, tables
from specjax.testing.built_in import lookahead_case
from specjax.testing.oracle import greedy_walk
from specjax.types import ACCEPTED, DRAFTED, EMITTED, Params, Streams

MODEL = TableModel(6, 3)
TARGET = tables.random_table(2, 6, 3)
TABLE = np.asarray(TARGET["table"])
SIZE = 56


def says(text):
  return int(np.argmax(TABLE[tuple([0, 0, 0, *text][-3:])]))


@dataclasses.dataclass
class Pool:
  """Of all n-grams the last seen, and of each first token as the paper's code
  keeps them."""

  drafter: Lookahead
  grams: list = dataclasses.field(default_factory=list)  # newest first
  lists: dict = dataclasses.field(default_factory=dict)  # newest last
  whole: bool = True  # nothing had to go yet

  def put(self, gram):
    if gram in self.grams:
      self.grams.remove(gram)
    self.grams.insert(0, gram)
    self.whole &= len(self.grams) <= self.drafter.pool_size
    del self.grams[self.drafter.pool_size :]
    kept = self.lists.setdefault(gram[0], [])
    if gram[1:] in kept:
      kept.remove(gram[1:])
    kept.append(gram[1:])
    del kept[: -self.drafter.guesses]

  def after(self, last):
    found = [g[1:] for g in self.grams if g[0] == last][: self.drafter.guesses]
    if self.whole:
      assert found == self.lists.get(last, [])[::-1]
    return found


def decode(drafter, prompt, new, most, window):
  """Lookahead decoding of a greedy text, told before each round.

  Args:
    most: tokens that are judged in a row.
    window: rows of tokens, as they begin.

  Yields:
    (window, n-grams of the pool, tokens judged, how many of them are kept).
  """
  text, pool, ngram = list(prompt), Pool(drafter), drafter.ngram
  limit, rounds = len(text) + new, 0

  def read():
    if drafter.from_prompt and len(text) >= ngram:
      pool.put(tuple(text[-ngram:]))

  for end in range(ngram, len(prompt) + 1):
    if drafter.from_prompt:
      pool.put(tuple(prompt[end - ngram : end]))
  while len(text) < limit:
    budget, last = min(most, limit - len(text) - 1), text[-1]
    judged = [gram[:budget] for gram in pool.after(last)] if budget else []
    walk = greedy_walk(TABLE, text, budget + 1)
    kept = max(
      [n for n in range(budget + 1) for g in judged if [*g[:n]] == walk[:n]],
      default=0,
    )
    yield window, list(pool.grams), judged, kept
    if budget:
      row, *below = window
      columns = [[r[i] for r in below] for i in range(drafter.window)]
      heard = [
        says(text + row[1 : i + 1] + column) for i, column in enumerate(columns)
      ]
      if rounds >= ngram - 2:
        for i, column in enumerate(columns):
          first = row[i] if i else last
          pool.put((first, *column, heard[i]))
      window, rounds = [*below, heard], rounds + 1
    for token in walk[: kept + 1]:
      text.append(token)
      read()


def prefixes(grams):
  return sorted({gram[:n] for gram in grams for n in range(1, len(gram) + 1)})


def paths_of(nodes, row):
  """Paths of tokens of a row's judged nodes."""
  paths = [()]
  for node in range(int(nodes.count[row])):
    parent = int(nodes.parents[row, node])
    assert parent <= node, "a parent stands before its child"
    paths.append((*paths[parent], int(nodes.tokens[row, node])))
  return sorted(paths[1:])


@pytest.mark.parametrize(
  "drafter",
  [
    Lookahead(4, 4, 3, pool_size=64),
    Lookahead(3, 3, 2, True, 9),
    Lookahead(2, 5, 4, True, 128),
    Lookahead(5, 2, 2, pool_size=6),
  ],
  ids=lambda d: f"{d.window}-{d.ngram}-{d.guesses}-{d.pool_size}",
)
def test_windows_pools_and_rounds_are_those_of_plain_python(drafter):
  rng = np.random.default_rng(0)
  prompts = [rng.integers(0, 6, 1 + 2 * i).tolist() for i in range(8)]
  deepest = drafter.max_depth
  budgets = [(deepest, deepest, 1, 0)[i % 4] for i in range(8)]
  new = [40 - 3 * i for i in range(8)]
  engine, params = runs.make_engine(MODEL, drafter), Params(TARGET)
  rows = runs.start(
    engine, params, prompts, new=new, size=SIZE, max_draft=budgets
  )

  @jax.jit
  def propose(rows):
    room = rows.limit - rows.length - 1
    budget = jnp.clip(jnp.minimum(rows.max_draft, room), 0, deepest)
    budget = jnp.where(rows.active, budget, 0)
    keys = Streams(rows.key, rows.length)
    proposal, state = drafter.propose(params, rows.draft, rows, budget, keys)
    return proposal.nodes, state

  shown = []
  while np.asarray(rows.active).any():
    shown.append(propose(rows))
    rows = runs.advance(engine, params, rows, 1)
  got = runs.to_host(rows)
  for row, prompt in enumerate(prompts):
    first = shown[0][1].window[row].tolist()
    if budgets[row]:
      assert {x for line in first for x in line} <= set(prompt)
    told = list(decode(drafter, prompt, new[row], budgets[row], first))
    assert got.rounds[row] == len(told)
    walk = greedy_walk(TABLE, prompt, new[row])
    assert runs.new_tokens(got, row) == walk
    for i, (window, grams, judged, kept) in enumerate(told):
      nodes, state = shown[i]
      room = new[row] - got.history[row, :i, EMITTED].sum() - 1
      fits = min(budgets[row], room) > 0
      # The corner is the last token's place.
      ours = np.ravel(state.window[row])[1:].tolist()
      assert ours == [x for line in window for x in line][1:]
      pool = [tuple(gram) for gram in state.pool[row].tolist()]
      none = (ngram_pool.NONE,) * drafter.ngram
      assert pool == grams + [none] * (drafter.pool_size - len(grams))
      assert paths_of(nodes, row) == prefixes(judged)
      assert got.history[row, i, DRAFTED] == nodes.count[row]
      assert got.history[row, i, ACCEPTED] == kept
      assert nodes.rider_count[row] == (drafter.num_riders if fits else 0)
    done = [jax.tree.leaves(state) for _, state in shown[len(told) :]]
    for leaves in done:  # a row that is done learns no more
      for x, y in zip(leaves, done[0], strict=True):
        assert (x[row] == y[row]).all()
  assert set(np.unique(got.history[..., ACCEPTED])) >= {0, 1, deepest}


@pytest.mark.parametrize(
  "check", ["greedy_nets", "exact_tables", "ragged_tables", "late_rows"]
)
def test_battery(check):
  check_case(lookahead_case(ExactMatch()), check)


@pytest.mark.parametrize(
  "sizes, reason",
  [
    (dict(window=1), "window of lookahead must be at least 2, got 1"),
    (dict(ngram=1), "ngram of lookahead must be at least 2, got 1"),
    (dict(guesses=0), "guesses of lookahead must be at least 1, got 0"),
    (dict(pool_size=14), "pool_size of lookahead must be at least 15, got 14"),
    (dict(ngram=True), "ngram must be a whole number, got True"),
  ],
)
def test_sizes_that_do_not_work_are_refused(sizes, reason):
  with pytest.raises(ValueError, match=reason):
    Lookahead(**sizes)
  assert Lookahead().widths == (1, 1 + 15 * 4 + 15 * 4 - 1)
