"""Acceptance by rank, out of rounds written by hand and out of real ones."""

import jax
import numpy as np

from specjax import api
from specjax.acceptance import ExactMatch
from specjax.api.traces import NodeTrace, RoundTrace
from specjax.checkpoints.loaded import LoadedModel
from specjax.drafters import DraftTree
from specjax.evaluation.acceptance import tree_study
from specjax.testing import tables
from specjax.topologies import expansion


def _round(*nodes):
  return RoundTrace(
    1 + len(nodes),
    tuple(
      NodeTrace(slot, parent, 0, 0.5, None, fate)
      for slot, (parent, fate) in enumerate(nodes, 1)
    ),
    (),
  )


def test_a_sibling_counts_once_those_before_it_were_refused():
  first = _round(
    (0, "refused"),  # rank 1
    (0, "accepted"),  # rank 2
    (0, "refused"),  # rank 3, never judged: its sibling was kept
    (1, "unreached"),
    (2, "refused"),  # rank 1, below the kept node
    (2, "cut"),  # rank 2
  )
  second = _round((0, "refused"), (0, "refused"), (0, "refused"))
  ranks = tree_study.count_ranks([first, second, _round()])
  assert ranks.tried.tolist() == [3, 3, 1]
  assert ranks.kept.tolist() == [0, 2, 0]
  np.testing.assert_allclose(ranks.conditional, [0, 2 / 3, 0])
  np.testing.assert_allclose(ranks.acceptance, [0, 2 / 3, 0])
  assert not tree_study.count_ranks([]).tried.size


def test_ranks_of_point_masses_are_the_target_s_own_probabilities():
  """The k-th likeliest token by the draft is kept as often as p says."""
  target, law = tables.random_table(1, 5, 1), 0.8
  model = tables.TableModel(5, 1)
  run = api.stream(
    LoadedModel("table", model, target),
    [[1, 2]] * 16,
    drafter=DraftTree(model, expansion((3,)), "point"),
    draft=target,
    rule=ExactMatch(),
    sampling=api.Sampling(temperature=law),
    max_new_tokens=100,
    key=jax.random.key(0),
    record=True,
  )
  run.run_to_end()
  rounds = [trace for row in run.traces for trace in row]
  ranks = tree_study.count_ranks(rounds)
  logits = np.asarray(target["table"], np.float64) / law
  p = np.exp(logits - logits.max(-1, keepdims=True))
  p /= p.sum(-1, keepdims=True)
  last = [row[-1] for row in run.prompt_ids]
  wanted = np.zeros(3)
  for row, before in zip(run.traces, last, strict=True):
    for trace in row:
      if trace.nodes:  # none at a row's limit
        wanted += np.sort(p[before])[::-1][:3]
      before = trace.emitted[-1].token
  drafted = sum(bool(trace.nodes) for trace in rounds)
  share = ranks.kept / drafted
  assert abs(share - wanted / drafted).max() < 4 * 0.5 / drafted**0.5
  np.testing.assert_allclose(ranks.acceptance, share, atol=1e-6)
