"""The page: its arithmetic is Python's, and it shows what is printed."""

import re

import pytest

from specjax.evaluation import roofline_page
from specjax.evaluation.roofline import figures
from specjax.evaluation.roofline_page import check

BATCHES, CONTEXTS = (1, 2, 4, 32, 64, 1024), (512, 2048, 8192)
BROWSER = check.find_browser()
needs_browser = pytest.mark.skipif(
  BROWSER is None, reason="no Chromium on the path and no $CHROME"
)


@pytest.fixture(scope="module")
def v8():
  """Evaluates scripts beside the page's arithmetic, without a browser."""
  engine = pytest.importorskip(
    "py_mini_racer", reason="mini-racer is not installed"
  )

  def evaluate(script, change=lambda text: text):
    context = engine.MiniRacer()
    context.eval(change(roofline_page.own(roofline_page.ARITHMETIC)))
    return context.eval(script)

  return evaluate


@pytest.fixture
def page(ask, tmp_path):
  """What the page's readouts hold at an address, by name."""

  def read(hash_="", **changes):
    data = roofline_page.page_data(ask(**changes), BATCHES, CONTEXTS, 10)
    path = tmp_path / "roofline.html"
    path.write_text(roofline_page.render(data), encoding="utf-8")
    assert BROWSER is not None
    text = check.dump(path.as_uri() + hash_, BROWSER)
    pattern = r'<output id="(\w+)"[^>]*data-value="([^"]+)"[^>]*>([^<]*)<'
    shown = {name: (float(v), t) for name, v, t in re.findall(pattern, text)}
    assert len(shown) == 13, text[-3000:]
    return shown, text

  return read


def test_the_arithmetic_in_v8(v8):
  worst, where = check.compare(check.random_cases(40, seed=1), v8)
  assert worst < check.TOLERANCE, where


@pytest.mark.parametrize(
  "text, other",
  [
    ("2 * model.parameters +", "2.0001 * model.parameters +"),
    ("Math.ceil(model.num_kv_heads", "(model.num_kv_heads"),
    ("seconds * active / c.batch", "seconds / c.batch"),
    ("const ring = 2 *", "const ring = 1 *"),
    ("c.context + c.new_tokens;", "c.context;"),
    ("most / plain.seconds", "most / (1.00001 * plain.seconds)"),
  ],
)
def test_a_wrong_arithmetic_is_found(v8, text, other):
  def change(script):
    assert text in script
    return script.replace(text, other)

  worst, _ = check.compare(
    check.random_cases(12, seed=2), lambda script: v8(script, change)
  )
  assert worst > check.TOLERANCE


def test_draws_follow_the_acceptance(v8):
  kept = v8("JSON.stringify(arithmetic.drawRounds([0.8, 0.5, 0], 20000, 3))")
  counts = [kept.count(digit) for digit in "0123"]
  assert counts[3] == 0 and sum(counts) == 20000
  # Five standard deviations of a binomial of 20,000.
  assert counts[0] == pytest.approx(4000, abs=5 * 57)
  assert counts[2] == pytest.approx(8000, abs=5 * 70)


def test_differences():
  ours = {"a": [1.0, 2.0], "idle_share": 1e-9, "b": {"c": None}}
  same = {"a": [1.0, 2.0], "idle_share": 0.0, "b": {"c": None}}
  worst, where = check.largest_difference(ours, same)
  assert (worst, where) == (1e-9, "idle_share")
  other = {**same, "a": [1.0, 2.2]}
  assert check.largest_difference(ours, other) == (pytest.approx(0.1), "a.1")
  for broken in ({**same, "b": {"c": 1.0}}, {"a": [1.0, 2.0]}):
    assert check.largest_difference(ours, broken)[0] == float("inf")


@needs_browser
def test_the_arithmetic_in_a_browser():
  assert BROWSER is not None
  worst, where = check.compare(
    check.random_cases(100), lambda script: check.in_browser(script, BROWSER)
  )
  assert worst < check.TOLERANCE, where


@needs_browser
def test_the_page_opens_with_the_printed_figures(page, ask):
  shown, text = page()
  found = figures.figures(ask().case)
  assert shown["speedup"][1] == "1.93×"  # printed: 1.94
  assert shown["verify_bytes"][1] == "15.6 GiB"
  assert shown["verify_operations"][1] == "0.09 TFLOP"
  assert shown["verify_seconds"][1] == "6.23 ms"
  assert shown["idle_share"][1] == "98 %"
  assert shown["draft_share"][1] == "26 %"
  for name in ("speedup", "row_speedup", "draft_share", "operations_factor"):
    assert shown[name][0] == pytest.approx(found[name], rel=1e-9)
  assert "SpecDecoding metrics: Mean acceptance length: 2.61," in text
  assert text.count('class="cell own"') == 1 + 12
  assert text.count("<polyline") == 3 * 4
  assert "Refused to" not in text


@needs_browser
def test_an_address_holds_the_settings(page, ask):
  shown, text = page("#batch=64")
  assert shown["speedup"][0] == pytest.approx(0.88, rel=0.035)
  assert shown["speedup"][1] == "0.89×"
  assert "drafting costs: 11 % slower" in text
  shown, _ = page("#drafter=ngram&shape=constant")
  assert shown["operations_factor"][0] == pytest.approx(1.62, rel=0.035)
  assert shown["draft_share"][0] == 0
  shown, text = page(
    "#batch=1024&device=tpu-v6e&ways=2&load=full&gamma=2&bits=8"
  )
  asked = ask(
    concurrency=1024,
    device="tpu-v6e",
    chips=2,
    load="full",
    gamma=2,
    weight_bits=8,
  )
  expected = figures.figures(asked.case)
  assert shown["speedup"][0] == pytest.approx(expected["speedup"], rel=1e-9)
  assert "1,024 sequences do not fit into memory" in text


def test_the_page_loads_nothing(ask):
  text = roofline_page.render(
    roofline_page.page_data(ask(), BATCHES, CONTEXTS, 10)
  )
  assert "default-src 'none'" in text
  addresses = set(re.findall(r"https?://[^\"' ]+", text))
  assert addresses == {"http://www.w3.org/2000/svg"}
  assert not re.search(r"<(link|img|iframe)[^>]+(src|href)=\"(?!data:,)", text)


def test_text_of_others_is_escaped(ask):
  data = roofline_page.page_data(ask(), BATCHES, CONTEXTS, 10)
  data["target"] = {**data["target"], "name": "</script><b>x"}
  text = roofline_page.render(data)
  assert "</script><b>x" not in text and "&lt;/script&gt;&lt;b&gt;x" in text
