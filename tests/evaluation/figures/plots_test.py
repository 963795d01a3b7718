"""Plots: which are drawn, what they show, and that nothing is covered."""

import dataclasses

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from specjax.evaluation.figures import plots
from specjax.evaluation.figures.summary import summarize
from specjax.evaluation.records import Mode


def _run(build, plain, depths):
  """Each mode on four questions of two classes; seconds are made up."""
  lookups = [
    Mode(f"a lookup with a long name k={k}", "ngram", "exact_match", True, k)
    for k in depths
  ]
  answers = []
  for number, question in enumerate("abcd"):
    for mode in (plain, *lookups):
      k = mode.num_speculative_tokens
      rounds = ((k, k, k + 1, k + 1), (k, 0, 1, k + 1), (0, 0, 1, 1)) * 8
      seconds = 5.0 / (1 + k) * (1 + 0.1 * number)
      answers.append(
        build(
          mode,
          question,
          None if mode.is_plain else rounds,
          seconds,
          category=("code edit", "story")[number % 2],
          begun=number == 0,
          predicted_s=0.96 * seconds,
        )
      )
  return answers


def test_each_file_is_a_png_and_the_same_again(tmp_path, build, plain):
  answers = _run(build, plain, (1, 3))
  summary = summarize(answers)
  files = plots.draw(summary, answers, tmp_path / "plots")
  assert [file.name for file in files] == [
    "speedup_by_class.png",
    "acceptance_by_position.png",
    "emitted_per_round.png",
    "predicted_against_measured.png",
  ]
  before = [file.read_bytes() for file in files]
  assert all(data.startswith(b"\x89PNG") for data in before)
  plots.draw(summary, answers, tmp_path / "plots")
  assert [file.read_bytes() for file in files] == before


def test_a_run_without_drafts_or_predictions_has_no_plots(
  tmp_path, build, plain
):
  answers = [build(plain)]
  assert plots.draw(summarize(answers), answers, tmp_path) == []


def test_each_law_has_its_own_plots(tmp_path, build, plain, lookup):
  modes = [
    dataclasses.replace(mode, name=f"{mode.name} {t}", temperature=t)
    for t in (0.0, 0.7)
    for mode in (plain, lookup)
  ]
  answers = [build(mode) for mode in modes]
  files = plots.draw(summarize(answers), answers, tmp_path)
  names = {file.stem for file in files}
  assert {"speedup_by_class", "speedup_by_class_2"} <= names
  left = [answer for answer in answers if answer.mode.temperature == 0]
  plots.draw(summarize(left), left, tmp_path)
  assert {f.stem for f in tmp_path.iterdir()} == {
    name for name in names if not name.endswith("_2")
  }


def test_intervals_are_those_of_the_summary(build, plain):
  answers = _run(build, plain, (3,))
  (entry,) = summarize(answers)["modes"][1:]
  figure = plots._speedup([entry], "tiny, greedy")
  (axes,) = figure.axes
  labels = [label.get_text() for label in axes.get_yticklabels()]
  assert labels == ["headline", "code edit (begun)", "story", "code edit"]
  (points,) = (c for c in axes.containers)
  line, _, (bars,) = points
  rows = [entry["headline"], *entry["categories"].values()]
  wanted = [row["speedup"]["estimate"] for row in rows]
  assert list(line.get_xdata()) == pytest.approx(wanted)
  got = [segment[:, 0] for segment in bars.get_segments()]
  for (low, high), row in zip(got, rows, strict=True):
    ratio = row["speedup"]
    assert low == pytest.approx(ratio["low"] or ratio["estimate"])
    assert high == pytest.approx(ratio["high"] or ratio["estimate"])


def test_emitted_shares_fill_each_bar(build, plain):
  answers = _run(build, plain, (1, 3))
  entries = summarize(answers)["modes"][1:]
  (axes,) = plots._emitted(entries, "tiny").axes
  widths = np.asarray([[bar.get_width() for bar in c] for c in axes.containers])
  assert widths.sum(0) == pytest.approx(1.0)
  # One token in two rounds of three, else 1 + k of them.
  assert widths[0] == pytest.approx(2 / 3)


def test_plots_say_that_nothing_is_left_out(build, plain):
  answers = _run(build, plain, (1, 3))
  (_, entry, _) = summarize(answers)["modes"]
  assert entry["headline"]["left_out"]
  rounds = entry["pooled"]["emitted_per_round"].values()
  own = [a for a in answers if a.mode.name == entry["mode"]["name"]]
  assert sum(rounds) == sum(len(a.rounds) for a in own)
  titles = (
    plots._acceptance([entry], "tiny").get_suptitle(),
    plots._emitted([entry], "tiny").axes[0].get_title(),
  )
  for title in titles:
    assert title.endswith(", all answers\ntiny")


@pytest.mark.parametrize("count", [1, 20])
def test_legends_cover_no_axes_and_stay_inside(build, plain, count):
  answers = _run(build, plain, range(1, count + 1))
  summary = summarize(answers)
  entries = summary["modes"]
  made = [make(entries, "tiny, greedy") for make in plots._OF_A_LAW.values()]
  made.append(plots._prediction(entries, answers, "tiny"))
  for figure in made:
    FigureCanvasAgg(figure).draw()
    (legend,) = figure.legends
    box = legend.get_window_extent()
    assert figure.bbox.x1 + 1 >= box.x1 and box.y0 >= 0
    for axes in figure.axes:
      drawn = axes.get_tightbbox()
      assert drawn.x1 <= box.x0 + 1
      assert drawn.x0 >= 0 and drawn.y0 >= 0
      assert drawn.y1 <= figure.bbox.y1 + 1
