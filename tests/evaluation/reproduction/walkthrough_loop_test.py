"""Cells of the compiled loop move with its laws and with its rule."""

from specjax.acceptance import Rejection
from specjax.evaluation.reproduction import walkthrough_loop

HERE = "specjax.evaluation.reproduction"
# The loop's laws alone become flatter; what they are held to stays.
FLAT = (f"{HERE}.bigram_loop:_logits", lambda f: lambda law: 0.2 * f(law))


def test_the_three_samplers(assert_every_cell_moves):
  rule = (f"{HERE}.walkthrough_loop:BiasedResample", lambda rule: Rejection)
  assert_every_cell_moves(walkthrough_loop.sampler_table, [FLAT, rule])


def test_seeds(assert_every_cell_moves):
  assert_every_cell_moves(walkthrough_loop.seeds, [FLAT])


def test_acceptance(assert_every_cell_moves):
  assert_every_cell_moves(walkthrough_loop.acceptance_table, [FLAT])
