"""Traces tell what really happened in each round."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specjax import api, constraints, decoding
from specjax.api import generation
from specjax.checkpoints.loaded import LoadedModel
from specjax.drafters import DraftModel, NGram
from specjax.testing import tables
from specjax.testing.drivers import RandomTree

VOCAB = 6
TABLE = tables.random_table(1, VOCAB, 1)
TARGET = LoadedModel("table", tables.TableModel(VOCAB, 1), TABLE)
MIXED = tables.mixed_table(TABLE, 0, 0.6)  # often refused, greedy too
PROMPTS = [[1, 2, 1, 2], [3, 3], [5, 1, 4, 5, 1]]


def probabilities(table, temperature):
  logits = np.asarray(jax.tree.leaves(table)[0], np.float64) / temperature
  weights = np.exp(logits - logits.max(-1, keepdims=True))
  return weights / weights.sum(-1, keepdims=True)


def decode(**options):
  settings = dict(max_new_tokens=15, key=jax.random.key(3), **options)
  run = api.stream(TARGET, PROMPTS, record=True, **settings)
  run.run_to_end()
  unseen = api.generate(TARGET, PROMPTS, **settings)
  assert run.output.tokens == unseen.tokens
  assert run.output.row_stats == unseen.row_stats
  return run


def walk(prompt, trace):
  """(node or emitted token, token before it) of a round, from its prompt."""
  by_slot = {0: prompt[-1]} | {n.slot: n.token for n in trace.nodes}
  for node in trace.nodes:
    yield node, by_slot[node.parent]


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_probabilities_are_those_of_the_models(temperature):
  run = decode(
    drafter=DraftModel(TARGET.model, 3),
    draft=MIXED,
    sampling=api.Sampling(temperature=temperature),
  )
  p = probabilities(TABLE, temperature or 1.0)
  q = probabilities(MIXED, temperature or 1.0)
  if not temperature:
    q = np.eye(VOCAB)[q.argmax(-1)]
  fates = set()
  for prompt, rounds in zip(PROMPTS, run.traces, strict=True):
    text = list(prompt)
    for trace in rounds:
      for node, before in walk(text, trace):
        fates.add(node.fate)
        assert node.p == pytest.approx(p[before, node.token], rel=1e-4)
        assert node.q == pytest.approx(q[before, node.token], rel=1e-4)
      for token in trace.emitted:
        law = p[text[-1]]
        assert token.p == pytest.approx(law[token.token], rel=1e-4)
        best = np.argsort(-law)[:5]
        assert [i for i, _ in token.alternatives] == list(best)
        assert [x for _, x in token.alternatives] == pytest.approx(
          law[best], rel=1e-4
        )
        text.append(token.token)
    assert text[len(prompt) :] == list(run.output.tokens[PROMPTS.index(prompt)])
  assert fates >= {"accepted", "refused", "unreached"}


def test_fates_follow_the_path_and_the_counts():
  settings = api.Sampling(temperature=0.9)
  plain = api.generate(
    TARGET,
    PROMPTS,
    sampling=settings,
    max_new_tokens=15,
    key=jax.random.key(3),
  )
  text = np.zeros((len(PROMPTS), 32), np.int32)
  for row, prompt, new in zip(text, PROMPTS, plain.tokens, strict=True):
    row[: len(prompt) + len(new)] = [*prompt, *new]
  run = decode(
    drafter=RandomTree(6, 3, VOCAB),
    draft={"text": jnp.asarray(text)},
    sampling=settings,
  )
  assert run.output.stats.accepted > 5
  for rounds, stats in zip(run.traces, run.output.row_stats, strict=True):
    assert len(rounds) == stats.rounds
    nodes = [node for trace in rounds for node in trace.nodes]
    assert len(nodes) == stats.drafted
    accepted = [node for node in nodes if node.fate == "accepted"]
    assert len(accepted) == stats.accepted
    for trace in rounds:
      slots = {token.slot for token in trace.emitted} - {None}
      kept = {n.slot for n in trace.nodes if n.fate == "accepted"}
      assert slots == kept
      for node in trace.nodes:
        reached = node.parent in kept | {0}
        assert (node.fate == "unreached") <= (not reached)
        assert (node.fate == "refused") <= reached


def cycle(**options):
  """The trace of the first round of 0 1 2 3 4 5 0 1 ..., and the output."""
  table = tables.cyclic_table(VOCAB, 1)
  target = LoadedModel("cycle", tables.TableModel(VOCAB, 1), table)
  text = [*range(VOCAB)] * 2
  run = api.stream(
    target, [text], drafter=NGram(4, 1, 2), record=True, **options
  )
  run.run_to_end()
  return run.traces[0][0], run.output


def test_a_limit_leaves_no_node_to_cut():
  trace, _ = cycle(max_new_tokens=3)
  assert [node.fate for node in trace.nodes] == ["accepted", "accepted"]
  assert [token.slot for token in trace.emitted] == [1, 2, None]


def test_kept_nodes_past_a_stop_are_cut(monkeypatch):
  stops = constraints.Stops(eos_ids=(1,))
  monkeypatch.setattr(generation, "Stops", lambda eos_ids: stops)
  trace, output = cycle(max_new_tokens=9)
  assert output.tokens == ((0, 1),)
  assert [token.token for token in trace.emitted] == [0, 1]
  assert [node.fate for node in trace.nodes] == ["accepted"] * 2 + ["cut"] * 2


def test_point_masses_have_no_q():
  run = decode(drafter=NGram(3, 1, 2))
  nodes = [n for rounds in run.traces for t in rounds for n in t.nodes]
  assert nodes and all(node.q is None for node in nodes)


def test_nothing_is_kept_unasked():
  run = api.stream(TARGET, PROMPTS, max_new_tokens=4)
  run.run_to_end()
  assert run.traces == ((), (), ())


def test_prompts_of_many_lengths_share_a_program():
  options = dict(drafter=NGram(3, 1, 2), max_new_tokens=12)
  sizes = set()
  for prompt in ([1], [1, 2] * 9, [4] * 40):
    run = api.stream(TARGET, [prompt], capacity=80, **options)
    run.run_to_end()
    sizes.add(decoding.decode._cache_size())
    assert run.output.tokens == api.generate(TARGET, [prompt], **options).tokens
  assert max(sizes) - min(sizes) <= 1  # what `generate` compiled between


def test_a_capacity_is_checked():
  with pytest.raises(ValueError, match="capacity must be at least 1"):
    api.stream(TARGET, PROMPTS, capacity=0)
