"""Tables of a made-up run: what stands in them, and that LaTeX can read it."""

import dataclasses
import io
import re

import pytest
from rich.console import Console

from specjax.evaluation.figures import tables
from specjax.evaluation.figures.summary import summarize


@pytest.fixture
def summary(build, plain, lookup):
  lossy = dataclasses.replace(
    lookup, name="len_ient 50% [b]", lossless=False, rule="lenience"
  )
  answers = []
  for question, category in (("a", "code & edit"), ("b", "story"), ("c", "")):
    answers += [
      build(plain, question, category=category, seconds=4.0, predicted_s=3.0),
      build(lookup, question, category=category, seconds=2.0),
      build(lossy, question, category=category, token_ids=(1,) * 10),
    ]
  answers.append(build(lookup, "d", begun=True))
  return summarize(answers)


def _printed(summary, width=250):
  console = Console(file=io.StringIO(), width=width)
  console.print(*tables.terminal(summary))
  return console.file.getvalue()


def test_speeds_stand_with_what_explains_them(summary):
  lines = _printed(summary).splitlines()
  (start,) = (i for i, line in enumerate(lines) if line.startswith("none "))
  none, ngram, lossy = (" ".join(x.split()) for x in lines[start : start + 3])
  assert none == "none 1 (baseline) 3 2.5 1.00 0 - 0.75 baseline"
  assert ngram == "ngram k=3 2.00x (2.00–2.00) 3 5.0 2.00 33 54.5% - identical"
  assert lossy.startswith("len_ient 50% [b] (LOSSY) 4.00x")
  assert lossy.endswith("LOSSY, 0 of 3 identical")


def test_numbers_are_whole_in_80_columns(summary):
  text = _printed(summary, width=80)
  assert "…" not in text
  assert all(len(line) <= 80 for line in text.splitlines())


def test_terminal_lists_categories_what_is_left_out_and_comparisons(summary):
  text = _printed(summary)
  for part in (
    "tiny, greedy: headline",
    "ngram k=3 1 of 4",
    "ngram k=3, greedy: by category",
    "code & edit",
    "story (begun)",
    "no category",
    "ngram k=3 beats none by 2.00x",
  ):
    assert part in text
  assert "none, greedy: by category" not in text


def test_latex_is_two_tables_with_their_columns_filled(summary):
  text = tables.latex(summary)
  bodies = re.findall(
    r"\\begin\{tabular\}\{(\w+)\}\n\\toprule\n(.*?)\\bottomrule", text, re.S
  )
  assert len(bodies) == 2
  for align, body in bodies:
    lines = [x for x in body.splitlines() if x != r"\midrule"]
    assert all(line.endswith(r" \\") for line in lines)
    cells = [re.split(r"(?<!\\)&", line) for line in lines]
    assert {len(row) for row in cells} == {len(align)}
  assert r"len\_ient 50\% [b] (LOSSY)" in text
  assert r"code \& edit" in text
  assert "2.00--2.00" in text and "–" not in text


def test_names_are_escaped():
  got = tables.escape(r"a_b\c{d}~^<|>$#±")
  assert got == (
    r"a\_b\textbackslash{}c\{d\}\textasciitilde{}\textasciicircum{}"
    r"\textless{}\textbar{}\textgreater{}\$\#$\pm$"
  )
