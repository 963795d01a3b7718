"""The oracle against laws worked out by hand, and the test of counts."""

import numpy as np
import pytest

from specjax.testing import (
  Setting,
  assert_conditional_law,
  assert_law,
  conditional_laws,
  expected_acceptance,
  greedy_walk,
  joint_law,
  law_of,
)

LOGITS = np.log(np.asarray([0.1, 0.4, 0.2, 0.3]))


@pytest.mark.parametrize(
  "setting, law",
  [
    (Setting(), [0.1, 0.4, 0.2, 0.3]),
    (Setting(temperature=0.0), [0, 1, 0, 0]),
    (Setting(temperature=0.5), np.asarray([1, 16, 4, 9]) / 30),
    (Setting(top_k=2), [0, 4 / 7, 0, 3 / 7]),
    (Setting(top_p=0.69), [0, 4 / 7, 0, 3 / 7]),
    (Setting(top_p=0.71), [0, 4 / 9, 2 / 9, 3 / 9]),
    (Setting(top_k=3, top_p=0.7), [0, 4 / 7, 0, 3 / 7]),
    (Setting(min_p=0.6), [0, 4 / 7, 0, 3 / 7]),
  ],
)
def test_filters(setting, law):
  np.testing.assert_allclose(law_of(LOGITS, setting), law, atol=1e-12)


def test_edges():
  nothing = np.full(4, -np.inf)
  assert law_of(nothing, Setting()).tolist() == [1, 0, 0, 0]
  odd = np.asarray([np.nan, 0.0, 0.0, -np.inf])
  assert law_of(odd, Setting(top_k=1)).tolist() == [0, 0.5, 0.5, 0]
  assert law_of(odd, Setting(temperature=0.0)).tolist() == [0, 1, 0, 0]


def test_the_joint_law_is_the_product_along_each_text():
  rng = np.random.default_rng(0)
  table = rng.normal(size=(3, 3, 3))
  laws = conditional_laws(table, Setting())
  joint = joint_law(laws, [1, 2], 4)
  assert joint.sum() == pytest.approx(1.0)
  a, b, c, d = 2, 0, 1, 1
  wanted = laws[1, 2, a] * laws[2, a, b] * laws[a, b, c] * laws[b, c, d]
  assert joint[a, b, c, d] == pytest.approx(wanted)
  short = joint_law(laws, [1], 1)
  np.testing.assert_allclose(short, laws[0, 1])
  walk = greedy_walk(table, [1, 2], 2)
  assert walk[0] == table[1, 2].argmax()
  assert walk[1] == table[2, walk[0]].argmax()


def test_expected_acceptance():
  p, q = np.asarray([0.5, 0.5, 0.0]), np.asarray([0.2, 0.3, 0.5])
  assert expected_acceptance(p, q, "rejection") == pytest.approx(0.5)
  assert expected_acceptance(p, q, "exact_match") == pytest.approx(0.25)
  with pytest.raises(ValueError, match="no closed form"):
    expected_acceptance(p, q, "typical")


def test_counts_of_the_law_pass_and_others_do_not():
  rng = np.random.default_rng(1)
  law = np.asarray([0.5, 0.3, 0.2, 1e-6])
  counts = rng.multinomial(20000, law / law.sum())
  assert assert_law(counts, law) > 1e-3
  with pytest.raises(AssertionError, match="(?s)worst cells.*observed"):
    assert_law(counts + np.asarray([0, 600, -600, 0]), law)
  with pytest.raises(AssertionError, match="outside the support"):
    assert_law(counts, np.asarray([0.5, 0.5, 0.0, 0.0]))


def test_p_values_are_uniform_with_pooled_cells():
  rng = np.random.default_rng(2)
  law = np.asarray([[0.6, 0.39, 0.007, 0.003], [0.25, 0.25, 0.25, 0.25]])
  values = [
    assert_conditional_law(
      np.stack([rng.multinomial(900, row) for row in law]), law
    )
    for _ in range(400)
  ]
  shares = np.histogram(values, bins=4, range=(0, 1))[0] / 400
  assert (abs(shares - 0.25) < 0.09).all(), shares


def test_contexts_that_differ_are_found_though_their_sum_is_right():
  laws = np.asarray([[0.7, 0.3], [0.3, 0.7]])
  crossed = np.asarray([[300, 700], [700, 300]])
  assert assert_law(crossed.sum(0), laws.sum(0)) == pytest.approx(1.0)
  with pytest.raises(AssertionError, match="worst cells"):
    assert_conditional_law(crossed, laws)
