"""Proposals that are not what their drafter declares, refused when traced."""

import dataclasses

import pytest

from specjax.acceptance import Recursive, Rejection
from specjax.drafters import DraftModel, NGram
from specjax.models.resized import Resized
from specjax.testing import runs, tables
from specjax.types import Params

TARGET = tables.TableModel(5, 2)
WEIGHTS = tables.random_table(0, 5, 2)
SMALL = tables.TableModel(4, 2)


class Unnamed(DraftModel):
  """States q and not which row of it each node was drawn from."""

  def propose(self, *args):
    proposal, state = super().propose(*args)
    return dataclasses.replace(proposal, q_row=None), state


class Narrow(NGram):
  widths = (1,)


class Deep(NGram):
  num_nodes = 3


class Ranked(DraftModel):
  """States q for nodes that it says were not drawn from it."""

  siblings = "point"


@pytest.mark.parametrize(
  "drafter, draft, message",
  [
    (Unnamed(TARGET, 2), WEIGHTS, "q_row"),
    (DraftModel(SMALL, 2), tables.random_table(0, 4, 2), "Resized"),
    (DraftModel(TARGET, 2), None, "needs its weights"),
    (Narrow(2), None, "widths of Narrow must rise to"),
    (Deep(2), None, "declared"),
    (Ranked(TARGET, 2), WEIGHTS, "states a q"),
  ],
)
def test_a_proposal_that_would_bend_the_law_is_refused(drafter, draft, message):
  rule = Recursive() if drafter.siblings == "point" else Rejection()
  engine = runs.make_engine(TARGET, drafter, rule)
  with pytest.raises(ValueError, match=message):
    runs.run(engine, Params(WEIGHTS, draft), [[1, 2]], new=4, size=8)


def test_a_resized_draft_draws_from_the_targets_tokens():
  engine = runs.make_engine(
    TARGET, DraftModel(Resized(SMALL, 5), 2), Rejection()
  )
  params = Params(WEIGHTS, tables.random_table(0, 4, 2))
  rows = runs.run(engine, params, [[1, 2]], new=4, size=8)
  assert rows.length.tolist() == [6]
