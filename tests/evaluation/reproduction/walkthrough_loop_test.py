"""Cells of the compiled loop move with its laws and with its rule."""

import pytest

from specjax.acceptance import Rejection
from specjax.evaluation.reproduction import walkthrough_loop
from tests.evaluation.reproduction.changes import FLAT, HERE, counts

pytestmark = pytest.mark.runs_long  # the loop: thousands of rows


def test_the_three_samplers(assert_every_cell_moves):
  rule = (f"{HERE}.walkthrough_loop:BiasedResample", lambda rule: Rejection)
  found = assert_every_cell_moves(walkthrough_loop.sampler_table, [FLAT, rule])
  assert set(counts(found)) == {"agrees"}


def test_seeds(assert_every_cell_moves):
  assert_every_cell_moves(walkthrough_loop.seeds, [FLAT])


def test_acceptance(assert_every_cell_moves):
  found = assert_every_cell_moves(walkthrough_loop.acceptance_table, [FLAT])
  assert set(counts(found)) == {"agrees"}
