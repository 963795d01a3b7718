"""The roofline and advise commands: what they print, write and refuse."""

import json

import pytest

from experiments import advise, roofline

# How ml_collections loads a config.
pytestmark = pytest.mark.filterwarnings(
  "ignore:the load_module:DeprecationWarning"
)

SIZES = """
from configs import roofline

def get_config():
  config = roofline.get_config()
  config.update(batches=(1, 64), contexts=(2048,), longest=4)
  config.drafters = ("qwen3-0.6b", "ngram")
  return config
"""


@pytest.fixture
def call(call_command, tmp_path):
  """(status, stdout, stderr) of a command with a small config."""
  file = tmp_path / "sizes.py"
  file.write_text(SIZES)
  return lambda main, *argv: call_command(main, [f"--config={file}", *argv])


def test_figures_as_json_and_a_folder(call, tmp_path):
  folder = tmp_path / "out"
  status, out, err = call(
    roofline.main, "--concurrency=64", f"--output={folder}", "--json"
  )
  assert status == 0, err
  found = json.loads(out)
  assert found["figures"]["speedup"] == pytest.approx(0.88, rel=0.035)
  assert [row["value"] for row in found["batch"]] == [1, 64]
  assert found["batch"][0]["speedup"] == pytest.approx(1.94, rel=0.035)
  assert found["capacity"]["qwen3-0.6b"]["batch"] == 90
  assert json.loads((folder / "roofline.json").read_text()) == found
  plots = sorted(path.name for path in folder.glob("*.png"))
  assert plots == [
    "speedup_by_batch.png",
    "speedup_by_context.png",
    "speedup_by_gamma.png",
    "where_time_goes.png",
  ]
  assert (folder / "roofline.html").stat().st_size > 40_000
  again = call(roofline.main, f"--output={folder}")
  assert again[0] == 1 and "already holds roofline.json" in again[2]


def test_tables_for_people(call):
  status, out, err = call(
    roofline.main,
    "--draft=head",
    "--acceptance=0.9",
    "--shape=constant",
    "--device=tpu-v5e",
    "--chips=4",
    "--weight_bits=8",
    "--load=full",
    "--gamma=2",
  )
  assert status == 0, err
  assert "4 x tpu-v5e (Google), head drafting 2" in out
  assert "acceptance 0.9 at every position" in out and "8 bits" in out
  assert "Against num_speculative_tokens: head" in out
  assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize(
  "argv, error",
  [
    (("--target=gpt-9",), "no preset 'gpt-9'"),
    (("--draft=oracle",), "no drafter 'oracle'"),
    (("--device=abacus",), "unknown device 'abacus'"),
    (("--acceptance=0.5,0.6",), "acceptance must be one number"),
    (("--acceptance=most",), "acceptance must be one number"),
    (("--acceptance_from=nowhere",), "no records at nowhere"),
    (("--gamma=0",), "gamma must be at least 1"),
  ],
)
def test_what_roofline_refuses(call, argv, error):
  status, out, err = call(roofline.main, *argv)
  assert status == 1 and out == ""
  assert err.startswith("error: ") and error in err and err.count("\n") == 1


def test_a_page_that_cannot_be_checked(call, monkeypatch):
  monkeypatch.setenv("PATH", "")
  monkeypatch.delenv("CHROME", raising=False)
  status, _, err = call(roofline.main, "--check_page")
  assert status == 1 and "needs a Chromium" in err


def test_the_verdict_of_a_check(call, monkeypatch):
  from specjax.evaluation.roofline_page import check

  monkeypatch.setattr(check, "find_browser", lambda: "browser")
  for worst, status in ((1e-9, 0), (1e-3, 1)):
    monkeypatch.setattr(check, "compare", lambda *_, w=worst: (w, "here"))
    got = call(roofline.main, "--check_page", "--check_settings=2", "--json")
    assert got[0] == status
    found = json.loads(got[1])
    assert found["largest_difference"] == worst and found["settings"] == 2


def test_advice_as_json_and_for_people(call):
  argv = ("--objective=latency", "--concurrency=4")
  status, out, err = call(advise.main, *argv, "--json")
  assert status == 0, err
  found = json.loads(out)
  assert (found["use"], found["num_speculative_tokens"]) == ("qwen3-0.6b", 3)
  status, out, _ = call(advise.main, *argv)
  assert status == 0
  assert out.startswith("for latency: qwen3-0.6b, γ 3: 1.8")
  assert "off above 90" in out and "\nwhy\n" in out and "\nmissing\n" in out
  status, out, _ = call(
    advise.main,
    "--objective=throughput",
    "--candidates=ngram,head",
    "--acceptance=ngram:0.3,head:0.6",
    "--concurrency=32",
    "--json",
  )
  found = json.loads(out)
  assert [c["assumed"] for c in found["candidates"]] == [False, False]


@pytest.mark.parametrize(
  "argv, error",
  [
    ((), "give --objective"),
    (("--objective=latency", "--gamma=3"), "finds gamma itself"),
    (("--objective=latency", "--candidates=oracle"), "no drafter 'oracle'"),
    (("--objective=latency", "--concurrency=0"), "concurrency must be at"),
    (("--objective=latency", "--acceptance=x:0.5"), "'x', which is no"),
    (("--objective=latency", "--records=nowhere"), "no records at nowhere"),
    (
      ("--objective=latency", "--records=r", "--device=h200"),
      "--records takes no --device",
    ),
  ],
)
def test_what_advise_refuses(call, argv, error):
  status, out, err = call(advise.main, *argv)
  assert status == 1 and out == ""
  assert err.startswith("error: ") and error in err and err.count("\n") == 1
