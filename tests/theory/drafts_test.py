"""What trained drafters cost: identities, and passes by hand."""

import dataclasses

import numpy as np
import pytest

from specjax.models.presets import PRESETS
from specjax.theory import devices, drafts, roofline, rounds, shapes
from specjax.theory.batch_expectation import expect
from specjax.theory.batch_simulation import Load, Simulator
from specjax.theory.roofline import Setup
from specjax.theory.shapes import ModelShape, OnceShape

SMOL = PRESETS["smollm2-135m"]
UNTIED = PRESETS["llama-3.1-8b"]
TINY = ModelShape(1000, 1000, 2, 4, 2, 8, 32)
UNIT = devices.Device(100.0, 10.0, 5000.0, 4.0, "by hand")
HEADS = OnceShape(once=40, each=30, shared=20)


def test_a_head_of_the_whole_vocabulary_is_the_tied_model():
  """V rows of its own are read where the tied table was."""
  own = dataclasses.replace(SMOL, head_size=SMOL.vocab_size)
  whole = shapes.shape_of(SMOL)
  shape = shapes.shape_of(own)
  assert shape.parameters == whole.parameters
  assert shape.stored == whole.stored + SMOL.vocab_size * SMOL.hidden_size
  shared = drafts.draft_model(own, shared_embedding=True)
  assert shared == rounds.separate(whole)
  assert drafts.draft_model(SMOL) == rounds.separate(whole)


def test_a_reduced_head():
  """3 layers of the default model with 8,192 rows: 15.3 of 134.5 million."""
  cut = dataclasses.replace(SMOL, num_layers=3, head_size=8192)
  layer = 576 * (2 * 576 + 2 * 192) + 3 * 576 * 1536 + 2 * 576
  shape = shapes.shape_of(cut)
  assert shape.parameters == 3 * layer + 576 + 8192 * 576
  assert shape.stored == shape.parameters + 49152 * 576
  draft = drafts.draft_model(cut, shared_embedding=True, shared_head=True)
  assert draft.model.parameters == draft.stored == shape.parameters
  draft = drafts.draft_model(cut, shared_embedding=True, shared_layers=2)
  assert draft.model.parameters == shape.parameters
  assert draft.stored == shape.parameters - 2 * layer
  assert draft.cached and draft.once is None and draft.longest is None


def test_an_untied_draft_looks_its_table_up():
  """A whole model keeps the 2 N convention; a draft does not pay for it."""
  table = UNTIED.vocab_size * UNTIED.hidden_size
  whole = shapes.shape_of(UNTIED)
  draft = drafts.draft_model(UNTIED)
  assert draft.model.parameters == whole.parameters - table
  assert draft.stored == whole.stored
  draft = drafts.draft_model(UNTIED, shared_embedding=True, shared_head=True)
  assert draft.stored == whole.stored - 2 * table


def test_first_layers():
  draft = drafts.first_layers(SMOL, 4)
  cut = shapes.shape_of(dataclasses.replace(SMOL, num_layers=4))
  assert draft.model == dataclasses.replace(cut, stored=0)
  assert draft.stored == 0 and draft.cached
  with pytest.raises(ValueError, match="31 layers cannot be cut from 30"):
    drafts.first_layers(SMOL, 31)


def test_eagle_1_is_a_head_on_the_target():
  """A norm less than a layer, and a bias as large."""
  assert drafts.eagle(UNTIED, version=1).model == shapes.head_of(UNTIED)


def test_eagle_3_fuses_once_a_draft():
  d, rows = 576, 8192 * 576
  draft = drafts.eagle(SMOL, head_size=8192)
  layer = 2 * d * (576 + 2 * 192) + 576 * d + 3 * d * 1536 + 3 * d
  assert draft.model.parameters == layer + d + rows
  assert draft.once == OnceShape(once=3 * d * d)
  assert draft.stored == layer + d + rows + 3 * d * d
  assert draft.cached and draft.model.num_layers == 1
  normed = drafts.eagle(SMOL, head_size=8192, fc_norm=True)
  assert normed.stored == draft.stored + 3 * d
  assert drafts.eagle(SMOL, head_size=8192, shared_head=True) == draft
  whole, shared = (drafts.eagle(SMOL, shared_head=x) for x in (False, True))
  assert whole.stored - shared.stored == SMOL.vocab_size * d
  assert whole.model.parameters == shared.model.parameters


def test_a_pass_of_heads_by_hand():
  """40 + 3 * 30 + 20 parameters of 2 bytes; rows are multiplied three times."""
  ours = roofline.once_pass(HEADS, UNIT, Setup(fixed_seconds=7.0), 2, 3)
  assert float(ours.bytes) == 300
  assert float(ours.operations) == 2 * 2 * (40 + 3 * (30 + 20))
  assert float(ours.seconds) == pytest.approx(max(30, 7.6) + 7)
  none = roofline.once_pass(HEADS, UNIT, Setup(fixed_seconds=7.0), 2, 0)
  assert (float(none.seconds), float(none.bytes)) == (0, 0)
  half = roofline.once_pass(HEADS, UNIT, Setup(weight_bits=8, ways=2), 2, 3)
  assert float(half.bytes) == 75 and float(half.exchange_seconds) == 0


def test_heads_run_once_and_models_once_a_token():
  """Equal weights: three passes of a model, one of heads."""
  setup = Setup(fixed_seconds=7.0)
  one = ModelShape(100, 100, 0, 1, 1, 1, 1)
  place = (UNIT, setup, 2, 10, 3)
  model = rounds.whole_draft(rounds.separate(one), *place)
  assert float(model.seconds) == pytest.approx(3 * (20 + 7))
  heads = drafts.medusa(9, 1, 3, num_layers=1, own_heads=True)  # 99 each
  ours = rounds.whole_draft(heads, *place)
  assert float(ours.seconds) == pytest.approx(3 * 99 * 2 / 10 + 7)
  assert heads.longest == 3 and not heads.cached
  both = dataclasses.replace(rounds.separate(one), once=OnceShape(once=50))
  fused = rounds.whole_draft(both, *place)
  assert float(fused.seconds) == pytest.approx(3 * 27 + 10)
  assert float(fused.operations) == 3 * 400 + 200
  step = rounds.draft_pass(both, *place)
  assert float(step.seconds) == pytest.approx(27)


@pytest.mark.parametrize(
  "drafter",
  [
    rounds.Drafter(once=HEADS, stored=150, longest=3),
    dataclasses.replace(
      rounds.separate(ModelShape(100, 100, 1, 2, 1, 8, 16)), once=HEADS
    ),
  ],
  ids=["heads", "model and fusion"],
)
def test_a_round_a_simulation_and_an_expectation_agree(drafter):
  """Certain acceptance: six tokens a row in two rounds."""
  setup = Setup(fixed_seconds=1.0)
  simulator = Simulator(TINY, drafter, UNIT, setup, (1.0, 1.0))
  drawn = simulator.run(Load(2, 2, 10, 6))
  ours = expect(simulator, 2, 10, 6)
  closed = [
    rounds.speculative_round(TINY, drafter, UNIT, setup, 2, context, 2, 3.0)
    for context in (10, 13)
  ]
  seconds = sum(float(one.seconds) for one in closed)
  drafting = sum(float(one.draft_share * one.seconds) for one in closed)
  for found in (drawn, ours):
    assert found.seconds == pytest.approx(seconds, rel=1e-5)
    assert found.draft_seconds == pytest.approx(drafting, rel=1e-5)
  assert drafting > 0
  np.testing.assert_allclose(drawn.operations, ours.operations, rtol=1e-5)


def test_heads_take_no_cache_from_the_batch():
  heads = drafts.medusa(576, 8192, 4, own_heads=False)
  chip = devices.device("h100")
  target = shapes.shape_of(SMOL)
  with_heads, alone = (
    float(rounds.largest_batch(target, drafter, chip, Setup(), 512))
    for drafter in (heads, None)
  )
  assert heads.stored == 4 * (576 * 576 + 576) + 8192 * 576
  assert alone - 2 <= with_heads < alone
