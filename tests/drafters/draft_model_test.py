"""A draft whose context ends before the target's."""

import numpy as np

from specjax.drafters import DraftModel
from specjax.testing import runs, tables
from specjax.testing.tables import TableModel
from specjax.types import DRAFTED, Params

_CONTEXT = 12


def test_a_draft_is_silent_past_its_own_context():
  target, table = TableModel(5, 2), tables.random_table(0, 5, 2)
  draft = TableModel(5, 2, max_positions=_CONTEXT)
  prompts = [[1, 2, 3], [2] * 9, [4, 1] * 7]
  options = dict(new=12, size=32, settings=runs.Setting(temperature=1.0))
  params = Params(table, table)
  plain = runs.run(runs.make_engine(target), params, prompts, **options)
  engine = runs.make_engine(target, DraftModel(draft, 4))
  got = runs.run(engine, params, prompts, **options)
  np.testing.assert_array_equal(got.tokens, plain.tokens)
  for prompt, history, rounds in zip(
    prompts, got.history, got.rounds, strict=True
  ):
    length = len(prompt)
    for drafted, _, emitted, _ in history[:rounds]:
      # The last token fed stands at length - 1 + drafted - 1.
      assert length + drafted - 2 < _CONTEXT or not drafted
      length += emitted
  assert got.history[0, :, DRAFTED].any()
  assert not got.history[2, :, DRAFTED].any()
