"""The report: its figures, escaping, and what is not there."""

import base64
import dataclasses
import hashlib
import html.parser
import json
import re

import pytest

from specjax.evaluation import records, report
from specjax.evaluation.records import Mode
from tests import made_answers

HOSTILE = "</script><img src=x onerror=alert(1)> <!-- <b>& {{ 7 * 7 }} \u2028"
PLAIN = made_answers.PLAIN
LOOKUP = made_answers.lookup(2)
LOSSY = Mode("typical", "model", "typical", False, num_speculative_tokens=2)
VOID = {"meta", "link", "img", "input", "wbr", "br"}


def make_answer(mode, question="1", ids=(5, 6, 7), seconds=1.0, **fields):
  rounds = ((0, 0, 1, 1),) * len(ids)
  if not mode.is_plain:
    rounds = ((2, len(ids) - 1, len(ids), 3),)
  given = dict(
    category="chat",
    prompt=HOSTILE,
    text="fine " + HOSTILE,
    token_ids=ids,
    finish_reason="eos",
    compile_s=1.0,
    decode_s=seconds,
    environment={"model": HOSTILE, "device": "cpu", "versions": {"jax": "9"}},
  )
  return made_answers.make_answer(mode, question, rounds, **{**given, **fields})


def node(slot, parent, token, text, p, fate, q=None):
  return {
    "slot": slot,
    "parent": parent,
    "token": token,
    "text": text,
    "p": p,
    "q": q,
    "fate": fate,
  }


def emitted(token, text, slot=None, p=0.5):
  return {
    "token": token,
    "text": text,
    "by": "target" if slot is None else "draft",
    "slot": slot,
    "p": p,
    "alternatives": [[token, text, p], [1, HOSTILE, 0.25]],
  }


TRACE = {
  "mode": "ngram k=2",
  "question_id": "1",
  "category": "chat",
  "turn": 0,
  "repeat": 0,
  "prompt": HOSTILE,
  "text": "The house.",
  "lossless": True,
  "rounds": [
    {
      "width": 2,
      "nodes": [node(1, 0, 11, " sea", 0.3, "refused")],
      "emitted": [emitted(21, "house")],
    },
    {
      "width": 5,
      "nodes": [
        node(1, 0, 22, "s", 0.2, "refused", 0.5),
        node(2, 0, 11, " sea", 0.6, "accepted", 0.4),
        node(3, 2, 30, ".", 0.7, "cut", 0.4),
      ],
      "emitted": [emitted(11, " sea", 2)],
    },
  ],
}


def part(tokens_per_s, compared=None, equal=0, speedup=None, **more):
  places = {"question_id": HOSTILE, "turn": 0, "repeat": 0, "index": 41}
  return {
    "answers": 3,
    "pooled": {
      "tokens_per_s": tokens_per_s,
      "tokens_per_pass": 3.21,
      "drafted": 12345,
      "draft_acceptance_rate": 0.4321,
      "mean_acceptance_length": 3.25,
    },
    "speedup": speedup
    and {
      "estimate": speedup,
      "low": speedup - 0.1,
      "high": speedup + 0.1,
      "n": 3,
      "n_needed": 7,
    },
    "identity": compared
    and {
      "compared": compared,
      "equal": equal,
      "first_difference": [places] * (compared - equal),
      "near_ties": None,
    },
    **more,
  }


def entry(mode, base, whole, headline):
  return {
    "mode": dataclasses.asdict(mode),
    "baseline": base,
    **whole,
    "categories": {HOSTILE: whole},
    "headline": headline,
  }


SUMMARY = {
  "baseline": "none",
  "environment": {"model": HOSTILE, "device": "cpu", "versions": {"jax": "9"}},
  "environment_varies": {"commit": ["abc", "def"]},
  "modes": [
    entry(PLAIN, "none", part(40.0), part(41.0)),
    entry(
      LOOKUP,
      "none",
      part(71.5, 4, 3, 2.125),
      part(
        61.5, 3, 3, 1.625, left_out=1, left_out_repetitive=1, left_out_begun=0
      ),
    ),
    entry(LOSSY, "none", part(81.5, None, 0, 3.5), part(82.5, None, 0, 3.25)),
  ],
  "prediction": [
    {
      "mode": "ngram k=2",
      "num_speculative_tokens": 2,
      "answers": 3,
      "predicted_s": 9.0,
      "measured_s": 10.0,
      "ratio": 0.9,
    }
  ],
  "comparisons": [{"a": "x", "b": "y", "sentence": "A beats B & " + HOSTILE}],
}


def make_folder(path, traces=(TRACE,)):
  answers = [
    make_answer(PLAIN),
    make_answer(LOOKUP, seconds=0.5),
    make_answer(PLAIN, "2"),
    make_answer(LOOKUP, "2", ids=(5, 6, 8), seconds=0.25),
    make_answer(LOSSY, seconds=0.5),
    make_answer(PLAIN, "3", repeated_8grams=0.5),
    make_answer(LOOKUP, "3", repeated_8grams=0.5),
  ]
  for answer in answers:
    records.append(path / "records.jsonl", answer.to_json())
  for trace in traces:
    records.append(path / "traces.jsonl", trace)
  (path / "summary.json").write_text(json.dumps(SUMMARY))
  config = {"config": {"command": ["bench", "--name=a b"]}, "machine": {}}
  (path / "config.json").write_text(json.dumps(config))
  (path / "plots").mkdir()
  (path / "plots" / "speedup_by_class.png").write_bytes(b"\x89PNG picture")
  return path


class Page(html.parser.HTMLParser):
  """Checks that elements close; collects texts, attributes and scripts."""

  def __init__(self, text):
    super().__init__()
    self.open, self.tags, self.texts, self.raw = [], [], [], {}
    self.feed(text)
    self.close()
    assert self.open == []

  def handle_starttag(self, tag, attrs):
    self.tags.append((tag, dict(attrs)))
    if tag not in VOID:
      self.open.append((tag, dict(attrs)))

  def handle_endtag(self, tag):
    name, _ = self.open.pop()
    assert name == tag, f"{name} is closed by {tag} at {self.getpos()}"

  def handle_data(self, data):
    name, attrs = self.open[-1] if self.open else ("", {})
    if name in ("script", "style"):
      key = attrs.get("id", name)
      self.raw[key] = self.raw.get(key, "") + data
    else:
      self.texts.append(data)

  @property
  def text(self):
    return " ".join(" ".join(self.texts).split())


def read_page(folder):
  return Page(report.write(folder).read_text(encoding="utf-8"))


def test_the_page_is_whole_and_loads_nothing(tmp_path):
  page = read_page(make_folder(tmp_path))
  for _, attrs in page.tags:
    for name in ("src", "href"):
      value = attrs.get(name, "data:")
      assert value.startswith(("data:", "#")), value
    assert not any(name.startswith("on") for name in attrs), attrs
    assert "style" not in attrs
  source = [a["src"] for tag, a in page.tags if tag == "img"]
  picture = base64.b64encode(b"\x89PNG picture").decode()
  assert source == [f"data:image/png;base64,{picture}"]
  assert "url(" not in page.raw["style"] and "@import" not in page.raw["style"]
  assert "http" not in page.raw["script"] + page.raw["style"]


def test_the_policy_names_what_the_page_runs(tmp_path):
  page = read_page(make_folder(tmp_path))
  policy = page.tags[[t for t, _ in page.tags].index("meta") + 1][1]["content"]
  assert policy.startswith("default-src 'none'")
  for kind in ("style", "script"):
    digest = hashlib.sha256(page.raw[kind].encode()).digest()
    wanted = f"{kind}-src 'sha256-{base64.b64encode(digest).decode()}'"
    assert wanted in policy


def test_hostile_texts_stay_texts(tmp_path):
  trace = json.loads(json.dumps(TRACE))
  trace["rounds"][0]["nodes"][0]["text"] = HOSTILE
  trace["mode"] = HOSTILE
  folder = make_folder(tmp_path, [trace])
  page = read_page(folder)
  assert [tag for tag, _ in page.tags].count("script") == 2
  assert not any("onerror" in attrs for _, attrs in page.tags)
  assert "onerror=alert(1)" in page.text and "{{ 7 * 7 }}" in page.text
  data = json.loads(page.raw["data"])
  assert HOSTILE in data["texts"] and [11, HOSTILE] in data["tokens"]
  assert "<" not in page.raw["data"]


def test_the_data_hold_every_answer_and_trace(tmp_path):
  data = json.loads(read_page(make_folder(tmp_path)).raw["data"])
  assert len(data["answers"]) == 7
  answer = data["answers"][1]
  assert data["texts"][answer["prompt"]] == HOSTILE
  assert (answer["mode"], answer["tokens"], answer["passes"]) == (
    "ngram k=2",
    3,
    1,
  )
  (trace,) = data["traces"]
  width, nodes, last = trace["rounds"][1]
  fates = [data["fates"][n[5]] for n in nodes]
  assert (width, fates) == (5, ["refused", "accepted", "cut"])
  assert [n[:2] for n in nodes] == [[1, 0], [2, 0], [3, 2]]
  assert [data["tokens"][n[2]] for n in nodes][1] == [11, " sea"]
  assert [n[3:5] for n in nodes][0] == [0.2, 0.5]
  assert trace["rounds"][0][1][0][4] is None
  token, slot, p, alternatives = last[0]
  assert (data["tokens"][token], slot, p) == ([11, " sea"], 2, 0.5)
  assert [a[1] for a in alternatives] == [0.5, 0.25]


def read_rows(page, caption):
  """Cells of the first table with this caption, spaces made one."""
  inside = re.search(
    f"<caption>{caption}</caption>(.*?)</table>", page, re.DOTALL
  )
  assert inside, caption
  rows = re.findall("<tr>(.*?)</tr>", inside[1], re.DOTALL)
  cells = [re.findall(r"<t[hd].*?>(.*?)</t[hd]>", r, re.DOTALL) for r in rows]
  return [
    [" ".join(re.sub("<.*?>", "", c).split()) for c in row] for row in cells
  ]


def test_verdicts_and_sentences_stand_in_the_page(tmp_path):
  text = read_page(make_folder(tmp_path)).text
  assert "token ids are plain decoding's in 3 of 4 answers" in text
  assert "LOSSY: the output law is not the target's (rule typical)" in text
  assert "A beats B & </script><img" in text
  assert "Left out: ngram k=2: 1 (1 repetitive)." in text
  assert "bench '--name=a b'" in text
  assert "jax 9" in text and "abc, def" in text


def test_the_tables_hold_the_figures_of_their_part(tmp_path):
  page = report.write(make_folder(tmp_path)).read_text()
  rows = read_rows(page, "By mode, without what flatters lookup")
  assert rows[1][:2] == ["none baseline", "–"]
  assert rows[2] == [
    "ngram k=2",
    "1.62× [1.52, 1.73]",
    "61.5",
    "3.21",
    "12,345",
    "0.432",
    "3.25",
    "3",
    "lossless: the output law is exactly the target&#39;s (rule exact_match);"
    " token ids are plain decoding&#39;s in all 3 answers",
  ]
  whole = read_rows(page, "By mode, all answers")
  assert whole[2][1:3] == ["2.12× [2.02, 2.23]", "71.5"]
  category = read_rows(page, "Speedup over plain decoding.*?")
  assert category[1][1:] == ["2.12× [2.02, 2.23]", "3.50× [3.40, 3.60]"]
  predicted = read_rows(page, "Seconds of decoding.*?")
  assert predicted[1] == ["ngram k=2", "3", "9.00", "10.00", "0.900"]
  differ = read_rows(page, "Where each first differs")
  assert len(differ) == 2 and differ[1][-3:] == ["1", "1", "42"]


def test_the_shortest_answer_is_stated_beside_the_speedups(tmp_path):
  folder = make_folder(tmp_path)
  records.append(
    folder / "records.jsonl", make_answer(LOOKUP, "4", ids=(5, 6)).to_json()
  )
  text = " ".join(read_page(folder).text.split())
  said = "however few tokens it gets; the shortest answer has 2. Seconds are"
  assert said in text
  (folder / "records.jsonl").unlink()
  assert "shortest answer" not in read_page(folder).text


FILES = ("summary.json", "config.json", "records.jsonl", "traces.jsonl")


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(tmp_path, name):
  (make_folder(tmp_path) / name).unlink()
  assert f"{name} is not in the run's folder." in read_page(tmp_path).text


@pytest.mark.parametrize("name", FILES)
def test_a_broken_file_is_named(tmp_path, name):
  (make_folder(tmp_path) / name).write_text('{"rounds": \n{}\n')
  assert f"{name} cannot be read" in read_page(tmp_path).text


def test_an_empty_folder_is_a_page_that_says_so(tmp_path):
  text = read_page(tmp_path).text
  for name in (*FILES, "plots"):
    assert f"{name} is not in the run's folder." in text


def test_no_folder_is_one_line(tmp_path):
  with pytest.raises(ValueError, match="there is no folder"):
    report.write(tmp_path / "none")


def test_texts_without_utf8_do_not_stop_it(tmp_path):
  folder = make_folder(tmp_path)
  answer = make_answer(PLAIN, "4", text="half \ud800", prompt="\udfff")
  records.append(folder / "records.jsonl", answer.to_json())
  config = {"config": {"name": "\ud800"}, "machine": {}}
  (folder / "config.json").write_text(json.dumps(config))
  assert len(json.loads(read_page(folder).raw["data"])["answers"]) == 8


def test_a_mode_without_drafts_has_no_counts(tmp_path):
  plain = {
    **TRACE,
    "mode": "none",
    "rounds": [{"width": 1, "nodes": [], "emitted": [emitted(10, "The")]}],
  }
  page = read_page(make_folder(tmp_path, [plain]))
  assert "No traced answer has a draft." in page.text


def test_the_script_names_only_what_the_page_has(tmp_path):
  page = read_page(make_folder(tmp_path))
  there = {attrs["id"] for _, attrs in page.tags if "id" in attrs}
  script = page.raw["script"]
  wanted = set(re.findall(r'byId\("([\w-]+)"\)', script))
  assert wanted and wanted <= there
