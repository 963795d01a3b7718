"""The interleaved run, with decoders that only note what they are asked."""

import dataclasses
from collections import Counter

import jax
import numpy as np
import pytest
import tokenizers
from tokenizers import decoders as piece_decoders
from tokenizers import models, pre_tokenizers

from specjax import api
from specjax.acceptance import ExactMatch
from specjax.checkpoints.loaded import LoadedModel
from specjax.drafters import NGram
from specjax.evaluation import peers
from specjax.evaluation.questions import Question
from specjax.evaluation.records import Mode
from specjax.evaluation.runs import benchmark, decoders, run_folder, traces
from specjax.evaluation.runs.benchmark import Plan, Run
from specjax.evaluation.runs.choice import choose
from specjax.evaluation.runs.decoders import Decoded, OwnDecoder
from specjax.evaluation.runs.grid import Method
from specjax.testing import tables
from specjax.text import Tokenizer

LETTERS = "abcdefg"
TEMPLATE = (
  "{% for m in messages %}{{ 'a' if m['role'] == 'user' else 'b' }}"
  "{{ m['content'] }}{% endfor %}{% if add_generation_prompt %}c{% endif %}"
)


def letters(template=None, eos_ids=()):
  """A token a letter."""
  vocabulary = {letter: i for i, letter in enumerate(LETTERS)}
  backend = tokenizers.Tokenizer(models.BPE(vocabulary, []))
  backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
  backend.decoder = piece_decoders.ByteLevel()
  return Tokenizer(backend, eos_ids=eos_ids, chat_template=template)


class Noter:
  """Answers with its own letter; writes down what it was asked."""

  def __init__(self, name, letter, log):
    self._mode = Mode(name)
    self._letter, self._log = letter, log

  @property
  def mode(self):
    return self._mode

  def decode(self, ids, max_new_tokens, key):
    self._log.append((self.mode.name, list(ids), key))
    tokens = (LETTERS.index(self._letter),) * max_new_tokens
    rounds = ((0, 0, 1, 1),) * max_new_tokens
    text = self._letter * max_new_tokens
    return Decoded(text, tokens, "length", len(rounds), rounds, 0.0, 0.1, 0.5)


QUESTIONS = choose(
  [
    Question(("de", "e"), {"question_id": 81, "category": "writing"}),
    Question(("ed",), {"question_id": 82, "category": "math"}),
    Question(("dd",), {"question_id": 83, "category": "math"}, begun="eee"),
  ]
)
PLAN = Plan(QUESTIONS, max_new_tokens=2, repeats=3, chat=False)


def start(tmp_path, plan=PLAN, tokenizer=None, **options):
  """(run, log) of three decoders in a folder."""
  log = []
  noters = [Noter(name, name[0], log) for name in ("d1", "e2", "f3")]
  folder = run_folder.RunFolder(tmp_path)
  tokenizer = tokenizer or letters()
  return Run(plan, noters, folder, tokenizer, **options), log


def spell(ids):
  return "".join(LETTERS[i] for i in ids)


def test_modes_take_turns_on_each_prompt_and_none_is_always_first(tmp_path):
  run, log = start(tmp_path)
  answers = list(run)
  assert run.total == run.done == len(answers) == len(log) == 3 * 4 * 3
  places = [(a.question_id, a.repeat, a.turn) for a in answers]
  expected = [
    *[("81", r, t) for r in range(3) for t in range(2)],
    *[("82", r, 0) for r in range(3)],
    *[("83", r, 0) for r in range(3)],
  ]
  assert places == [place for place in expected for _ in range(3)]
  groups = [log[i : i + 3] for i in range(0, len(log), 3)]
  assert all({name for name, *_ in g} == {"d1", "e2", "f3"} for g in groups)
  firsts = Counter(group[0][0] for group in groups)
  assert set(firsts.values()) == {4}


def test_modes_share_draws_and_repeats_do_not(tmp_path):
  run, log = start(tmp_path)
  answers = list(run)
  data = [tuple(np.asarray(jax.random.key_data(k)).tolist()) for *_, k in log]
  by_task = {}
  for answer, key in zip(answers, data, strict=True):
    by_task.setdefault(answer.key[1:], set()).add(key)
  assert all(len(keys) == 1 for keys in by_task.values())
  assert len(set.union(*by_task.values())) == len(by_task)


def test_draws_of_a_question_do_not_depend_on_the_others(tmp_path):
  run, log = start(tmp_path / "all")
  (tmp_path / "all").mkdir()
  answers = list(run)
  few = dataclasses.replace(PLAN, questions=QUESTIONS[2:])
  (tmp_path / "few").mkdir()
  part, short = start(tmp_path / "few", few)
  list(part)
  want = [
    jax.random.key_data(key).tolist()
    for answer, (*_, key) in zip(answers, log, strict=True)
    if answer.question_id == "83" and answer.mode.name == "d1"
  ]
  got = [
    jax.random.key_data(key).tolist() for name, _, key in short if name == "d1"
  ]
  assert got == want


def test_a_later_turn_follows_the_mode_s_own_answers(tmp_path):
  run, log = start(tmp_path, tokenizer=letters(TEMPLATE))
  run.plan = dataclasses.replace(PLAN, chat=True)
  prompts = {}
  for answer, (name, ids, _) in zip(run, log, strict=False):
    if answer.question_id == "81" and not answer.repeat:
      prompts[name, answer.turn] = spell(ids)
  assert prompts["d1", 0] == prompts["e2", 0] == "adec"
  assert prompts["d1", 1] == "ade" + "bdd" + "ae" + "c"
  assert prompts["e2", 1] == "ade" + "bee" + "ae" + "c"


def test_the_beginning_of_an_answer_follows_the_prompt(tmp_path):
  run, log = start(tmp_path, tokenizer=letters(TEMPLATE))
  run.plan = dataclasses.replace(PLAN, chat=True)
  begun = {}
  for answer, (_, ids, _) in zip(run, log, strict=False):
    assert answer.prompt_tokens == len(ids)
    if answer.begun:
      begun[answer.question_id] = spell(ids)
  assert begun == {"83": "addc" + "eee"}


@pytest.mark.parametrize("stop", [1, 4, 5, 20])
def test_a_rerun_measures_what_is_missing_and_nothing_twice(tmp_path, stop):
  whole = tmp_path / "whole"
  whole.mkdir()
  run, log = start(whole)
  list(run)
  half = tmp_path / "half"
  half.mkdir()
  run, first = start(half)
  for _, _ in zip(range(stop), run, strict=False):
    pass
  again, second = start(half)
  assert again.done == len(first) == stop
  list(again)
  assert again.done == again.total
  asked = [(name, ids) for name, ids, _ in first + second]
  assert asked == [(name, ids) for name, ids, _ in log]
  keys = [a.key for a in run_folder.RunFolder(half).answers()]
  assert len(keys) == len(set(keys)) == again.total


def test_what_comes_between_questions_is_called_where_one_is_missing(tmp_path):
  calls = []
  run, _ = start(tmp_path, between=lambda: calls.append(run.done))
  for _, _ in zip(range(7), run, strict=False):
    pass
  assert calls == [0, 3, 6]
  again, _ = start(tmp_path, between=lambda: calls.append(again.done))
  list(again)
  assert calls == [0, 3, 6, 7, *range(9, 34, 3)]


def test_room_is_what_the_longest_conversation_may_take():
  assert PLAN.capacity(letters(), 64) == max(2 + 1 + 2 * 2, 2 + 3 + 2)
  with pytest.raises(ValueError, match="question 81 .* may take 7 tokens"):
    PLAN.capacity(letters(), 6)


def test_traces_come_from_as_many_categories_as_there_are():
  chosen = traces.choose(benchmark.tasks(PLAN), 3)
  assert [(t.id, t.turn, t.repeat) for t in chosen] == [
    ("81", 0, 0),
    ("82", 0, 0),
    ("83", 0, 0),
  ]
  assert [t.id for t in traces.choose(benchmark.tasks(PLAN), 2)] == ["81", "82"]
  assert not traces.choose(benchmark.tasks(PLAN), 0)


def test_our_own_decoder_says_what_generate_says():
  table = tables.random_table(0, 7, 2)
  target = LoadedModel("t", tables.TableModel(7, 2), table, letters())
  sampling = api.Sampling(temperature=0.8)
  mode = Mode("ngram", "ngram", num_speculative_tokens=3, temperature=0.8)
  method = Method(mode, NGram(3), None, ExactMatch(), sampling)
  key = jax.random.key(3)
  got = OwnDecoder(target, method, 64).decode([1, 2, 1, 2], 24, key)
  want = api.generate(
    target, [[1, 2, 1, 2]], sampling=sampling, max_new_tokens=24, key=key
  )
  assert got.token_ids == want.tokens[0] and got.text == want.texts[0]
  assert got.finish_reason == want.finish_reasons[0]
  assert got.passes == len(got.rounds) < len(got.token_ids) == 24
  assert sum(emitted for _, _, emitted, _ in got.rounds) == len(got.token_ids)
  assert {width for *_, width in got.rounds} <= {1, 4}
  assert got.decode_s > 0 and got.prefill_s > 0


class Stub(peers.Peer):
  """Notes what it is asked, in place of a process."""

  def __init__(self):
    self.asked = []

  def decode(self, prompt_ids, max_new_tokens, **options):
    self.asked.append((list(prompt_ids), max_new_tokens, options))
    tokens = tuple(range(max_new_tokens))
    rounds = ((0, 0, 1, 1),) * max_new_tokens
    return peers.PeerAnswer(tokens, len(rounds), 0.25, 2.0, "length", rounds)


def test_a_peer_is_warmed_and_gets_the_same_prompt_and_a_seed():
  peer, mode = Stub(), Mode("peer", temperature=0.7, system="torch")
  decoder = decoders.PeerDecoder(peer, mode, letters(eos_ids=(5,)))
  got = decoder.decode([3, 4], 5, jax.random.key(1))
  again = decoder.decode([3], 2, jax.random.key(2))
  assert got.text == "abcde" and again.text == "ab"
  assert (got.prefill_s, got.decode_s, got.passes) == (0.25, 2.0, 5)
  (warm, first, second) = peer.asked
  assert warm[0] == first[0] == [3, 4] and second[0] == [3]
  assert [first[1], second[1]] == [5, 2]
  seeds = [first[2].pop("seed"), second[2].pop("seed")]
  assert seeds[0] != seeds[1] and all(0 <= s < 2**31 for s in seeds)
  assert first[2] == {"temperature": 0.7, "eos_ids": (5,)}


def test_only_a_lack_of_memory_is_called_that():
  full = jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory")
  assert decoders.out_of_memory(full)
  assert decoders.out_of_memory(MemoryError())
  other = jax.errors.JaxRuntimeError("INTERNAL: oops")
  assert not decoders.out_of_memory(other)
  assert not decoders.out_of_memory(ValueError("RESOURCE_EXHAUSTED"))
