"""Functions as a task: what is asked, what is learnt, what is left out."""

import dataclasses
import json
import sysconfig

import pytest

from experiments import functions, setup
from specjax.training import data
from tests.byte_tokenizer import byte_tokenizer

MODULE = '''
import os


class Shelf:
  @property
  def books(self, more=1):
    """All that stand here,
    left to right.

    And a second paragraph.
    """
    found = sorted(self.names)
    return found + [str(more)] * more


def undescribed():
  return os.getcwd() or "nowhere at all"


def only_described():
  """A function whose whole body is its docstring."""


def again():
  """All that stand here, left to right."""
  return "the same description, which counts once alone"
'''
ASKED = "All that stand here, left to right."
CODE = """def books(self, more=1):
  found = sorted(self.names)
  return found + [str(more)] * more"""
TEMPLATE = (
  "{% for m in messages %}<{{ m.role }}>{{ m.content }}</s>{% endfor %}"
  "{% if add_generation_prompt %}<assistant>{% endif %}"
)


@pytest.fixture
def shelf(tmp_path):
  folder = tmp_path / "library"
  (folder / "test").mkdir(parents=True)
  (folder / "a.py").write_text(MODULE)
  (folder / "broken.py").write_text("def (")
  (folder / "latin.py").write_bytes(b'"\xe9"')
  (folder / "test" / "a.py").write_text(MODULE.replace("All", "None"))
  return folder


def test_a_function_is_told_by_its_first_paragraph_and_shown_without(shelf):
  assert list(functions.pairs(shelf)) == [(ASKED, CODE)]


def test_one_in_four_is_asked_and_the_rest_are_learnt(
  run, shelf, tmp_path, monkeypatch
):
  described = [MODULE.replace("All", f"{word} all") for word in "Abcdefgh"]
  for number, text in enumerate(described):
    (shelf / f"m{number}.py").write_text(text)
  tokenizer = dataclasses.replace(byte_tokenizer(), chat_template=TEMPLATE)
  monkeypatch.setattr(
    setup, "load_target", lambda *args: type("T", (), {"tokenizer": tokenizer})
  )
  monkeypatch.setattr(sysconfig, "get_path", lambda name: str(shelf))
  out, asked = tmp_path / "new" / "f.jsonl", tmp_path / "asked.jsonl"
  got = run(
    functions.main, f"--output={out}", f"--asked={asked}", "--queries=1"
  )
  assert got.status == 0, got.err
  assert got.out == f"8 functions in {out}\n1 queries in {asked}\n"
  (query,) = [json.loads(line) for line in asked.read_text().splitlines()]
  learnt = data.read_conversations(out)
  questions = set()
  for text in learnt:
    ((start, end),) = text.answers
    assert tokenizer.decode(text.token_ids[start : end - 1]) == CODE
    assert end == len(text.token_ids)
    assert text.token_ids[-1] in tokenizer.eos_ids
    questions.add(tokenizer.decode(text.token_ids[:start]))
  assert len(questions) == 8
  assert all(query["prompt"] not in question for question in questions)


def test_a_model_without_a_template_is_refused(run, tiny, tmp_path):
  got = run(
    functions.main,
    f"--model={tiny}",
    f"--output={tmp_path / 'f'}",
    f"--asked={tmp_path / 'a'}",
  )
  assert got.status == 1 and "no chat template to ask with" in got.err
