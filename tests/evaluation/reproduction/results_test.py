"""Counts, JSON and the page of papers that are made up here."""

import json
import math

import pytest

from specjax.evaluation.reproduction import page, pictures, registry, results
from specjax.evaluation.reproduction.cells import (
  Cell,
  Figure,
  Paper,
  Settings,
)

HOSTILE = "<script>alert(1)</script>"
PAPER = Paper(
  "made_up",
  f"A title with {HOSTILE}",
  "nowhere",
  lambda settings: (
    Cell("a", "formula", 1.5, 1.5, 0.05),
    Cell("b", "sampler", 1.5, 1.7, 0.05, note=f"why {HOSTILE}"),
    Cell("c", "trained", math.nan, None, 0.0),
  ),
  lambda settings: (
    Figure(
      "curves", "x", "y", {"a": ([1, 2], [3, 4])}, {"b": ([1], [3])}, True
    ),
  ),
)


@pytest.fixture
def made(monkeypatch):
  monkeypatch.setattr(registry, "load", lambda name: PAPER)
  return list(results.make(["made_up"], Settings(), figures=True))


def test_cells_are_counted_by_group_and_verdict(made):
  found = results.counts(made)
  assert found["formula"] == {
    "agrees": 1,
    "differs": 0,
    "no published cell": 0,
  }
  assert found["sampler"]["differs"] == 1
  assert found["trained"]["no published cell"] == 1
  assert [cell.place for _, cell in results.differing(made)] == ["b"]


def test_json_has_null_where_there_is_no_number(made):
  (record,) = [result.to_json() for result in made]
  entries = json.loads(json.dumps(record, allow_nan=False))["cells"]
  assert entries[1]["verdict"] == "differs"
  assert entries[1]["difference"] == pytest.approx(-0.2)
  assert entries[2]["ours"] is None and entries[2]["published"] is None


def test_the_page_holds_everything_and_escapes_it(made):
  text = page.render(made, pictures.draw(made))
  assert HOSTILE not in text and text.count("&lt;script&gt;") >= 3
  assert "data:image/png;base64," in text and "http://" not in text
  assert 'class="differs"' in text


def test_pictures_are_png_files_named_after_the_paper(made, tmp_path):
  paths = pictures.write(pictures.draw(made), tmp_path)
  assert [path.name for path in paths] == ["made_up_1.png"]
  assert paths[0].read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", registry.NAMES)
def test_every_paper_of_the_registry_is_there(name):
  assert registry.load(name).name == name
