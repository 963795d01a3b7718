"""Where answers part: near-ties and faults on a target whose law is a table."""

import dataclasses
import json

import jax.numpy as jnp
import numpy as np

from specjax.checkpoints.loaded import LoadedModel
from specjax.evaluation.runs import differences
from specjax.testing import tables
from tests.made_answers import PLAIN, lookup, make_answer

LOOKUP = lookup(2)


def _target():
  """After 1 come 2 and 3, all but level; after 2 comes 4 by far."""
  table = np.zeros((7, 7), np.float32)
  table[1, 2], table[1, 3], table[2, 4] = 5.0, 4.9997, 5.0
  params = {"table": jnp.asarray(table)}
  return LoadedModel("t", tables.TableModel(7, 1), params)


def _answer(mode, name, tokens, turn=0, repeat=0):
  return make_answer(
    mode, name, (), token_ids=tokens, turn=turn, repeat=repeat, passes=1
  )


def test_near_ties_and_faults_are_told_apart(tmp_path):
  peer = dataclasses.replace(LOOKUP, name="peer", system="torch")
  warm = dataclasses.replace(LOOKUP, name="warm", temperature=1.0)
  answers = [
    _answer(PLAIN, "equal", (1, 2)),
    _answer(LOOKUP, "equal", (1, 2)),
    _answer(PLAIN, "tie", (1, 2, 4)),
    _answer(LOOKUP, "tie", (1, 3, 0)),
    _answer(PLAIN, "tie", (5,), turn=1),
    _answer(LOOKUP, "tie", (6,), turn=1),  # another conversation by now
    _answer(PLAIN, "fault", (1, 2, 4)),
    _answer(LOOKUP, "fault", (1, 2, 5)),
    _answer(peer, "fault", (1, 2, 6)),
    _answer(warm, "fault", (1, 2, 6)),
  ]
  asked = []

  def prompt_ids(answer):
    asked.append(answer.question_id)
    return [0]

  differences.write(tmp_path, _target(), answers, prompt_ids)
  found = json.loads((tmp_path / differences.FILE).read_text())
  assert set(found) == {"ngram k=2"}
  places = [
    (p["question_id"], p["position"], p["kind"]) for p in found[LOOKUP.name]
  ]
  assert places == [("tie", 1, "near-tie"), ("fault", 2, "fault")]
  assert asked == ["tie", "fault"]
  ties = differences.near_ties(tmp_path)
  assert ties == {"ngram k=2": {("tie", 0, 0)}}


def test_nobody_looked_where_there_is_no_file(tmp_path):
  assert differences.near_ties(tmp_path) == {}
