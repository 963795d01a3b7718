"""The first command: what it prints, and what it refuses."""

import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys

import pytest

from experiments import command, generate
from specjax.api import lanes

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIELDS = """prompt text token_ids finish_reason new_tokens rounds drafted
accepted accept_lengths mean_acceptance_length draft_acceptance_rate
acceptance_per_position compile_s prefill_s decode_s tokens_per_s model drafter
rule lossless seed num_speculative_tokens""".split()


# Sizes and filters that all tests share, so that they share programs too.
ALIKE = ("--temperature=1", "--max_new_tokens=16")


def _json(run, model, *argv):
  got = run(generate.main, f"--model={model}", "--json", *argv)
  assert got.status == 0, got.err
  return got.records


def test_lookup_and_plain_decoding_give_the_same_tokens(run, tiny):
  common = ("--prompt=abcabcabc", *ALIKE)
  (plain,) = _json(run, tiny, *common, "--drafter=none")
  (lookup,) = _json(run, tiny, *common, "--drafter=ngram", "--compare")
  assert set(FIELDS) <= set(plain)
  assert lookup["token_ids"] == plain["token_ids"]
  assert (plain["rule"], plain["lossless"]) == ("exact_match", True)
  assert lookup["plain"]["identical"] and "plain" not in plain
  assert plain["new_tokens"] == plain["rounds"] == len(plain["token_ids"])
  assert plain["drafted"] == 0 and plain["draft_acceptance_rate"] is None
  assert sum(lookup["accept_lengths"]) == lookup["new_tokens"]
  assert lookup["num_speculative_tokens"] == 7


def test_a_batch_gives_each_prompt_its_solo_output(run, tiny, tmp_path):
  file = tmp_path / "prompts.jsonl"
  texts = ["abab", "Hello there", "x", "12 12 12"]
  file.write_text("\n".join(json.dumps({"prompt": t}) for t in texts))
  common = (f"--prompt_file={file}", *ALIKE, "--drafter=ngram", "--logprobs")
  common += ("--seed=5",)
  solo = _json(run, tiny, *common)
  batch = _json(run, tiny, *common, "--batch=3")
  assert [r["prompt"] for r in solo] == [r["prompt"] for r in batch] == texts
  assert [r["token_ids"] for r in solo] == [r["token_ids"] for r in batch]
  for record in batch:
    assert len(record["logprobs"]) == record["new_tokens"]


def test_turns_of_a_conversation_follow_one_another(run, tiny, tmp_path):
  file = tmp_path / "question.jsonl"
  lines = [
    {"question_id": 81, "category": "writing", "turns": ["ab", "cd"]},
    {"question_id": 82, "category": "math", "turns": ["xy"]},
  ]
  file.write_text("\n".join(map(json.dumps, lines)))
  got = _json(run, tiny, f"--prompt_file={file}", "--max_new_tokens=6")
  assert [(r["question_id"], r["turn"], r["prompt"]) for r in got] == [
    (81, 0, "ab"),
    (82, 0, "xy"),
    (81, 1, "cd"),
  ]
  said = f"ab\n{got[0]['text']}\ncd"
  (direct,) = _json(run, tiny, f"--prompt={said}", "--max_new_tokens=6")
  assert direct["token_ids"] == got[2]["token_ids"]


def test_an_answer_goes_on_where_it_was_begun(run, tiny, tmp_path):
  file = tmp_path / "question.jsonl"
  file.write_text(
    json.dumps({"question_id": 1, "turns": ["ab"], "begun": "cd"})
  )
  (begun,) = _json(run, tiny, f"--prompt_file={file}", "--max_new_tokens=6")
  (whole,) = _json(run, tiny, "--prompt=abcd", "--max_new_tokens=6")
  (other,) = _json(run, tiny, "--prompt=ab", "--max_new_tokens=6")
  assert begun["token_ids"] == whole["token_ids"] != other["token_ids"]


def test_a_file_may_begin_with_a_byte_order_mark(run, tiny, tmp_path):
  file = tmp_path / "p.jsonl"
  file.write_bytes(b'\xef\xbb\xbf{"prompt": "ab"}\r\n')
  (got,) = _json(run, tiny, f"--prompt_file={file}", "--max_new_tokens=6")
  assert got["prompt"] == "ab"


def test_a_record_survives_what_its_output_cannot_encode(run, tiny, tmp_path):
  file = tmp_path / "p.jsonl"
  file.write_text('{"category": "\\ud800", "turns": ["ab"]}')
  (got,) = _json(run, tiny, f"--prompt_file={file}", "--max_new_tokens=6")
  assert got["category"] == "\ud800"


def test_people_get_text_and_a_table_beside_plain_decoding(run, tiny):
  got = run(
    generate.main,
    f"--model={tiny}",
    "--prompt=abcabc",
    "--drafter=ngram",
    *ALIKE,
  )
  assert got.status == 0
  (record,) = _json(run, tiny, "--prompt=abcabc", *ALIKE)
  assert got.out.startswith(record["text"])
  assert "tokens per target pass" in got.out and "plain" in got.out
  assert "identical to plain decoding's: yes" in got.out
  assert "lossless" in got.out and "\x1b" not in got.out
  assert got.err.splitlines()[0].startswith("loading")


def test_a_lossy_rule_says_so(run, tiny):
  common = ("--prompt=ab", "--drafter=model", "--draft_layers=1")
  common += ("--rule=lossy_lenience", "--lenience=0.5", *ALIKE)
  got = run(generate.main, f"--model={tiny}", *common, "--nocompare")
  assert "LOSSY" in got.out
  (record,) = _json(run, tiny, *common)
  assert (record["rule"], record["lossless"]) == ("lossy_lenience", False)


def test_a_draft_of_layers_gives_the_same_output_twice(run, tiny):
  argv = ("--prompt=ab", "--drafter=model", "--draft_layers=1", *ALIKE)
  argv += ("--top_p=0.9", "--seed=3")
  (first,), (second,) = (_json(run, tiny, *argv) for _ in range(2))
  timed = {"compile_s", "prefill_s", "decode_s", "tokens_per_s"}
  for name in first.keys() - timed:
    assert first[name] == second[name], name
  assert first["drafted"] > 0 and first["rule"] == "rejection"
  assert second["compile_s"] < first["compile_s"]


def test_each_round_s_tree_is_drawn(run, tiny):
  tree = "--drafter=model_tree tree=expand:2x1"
  common = ("--draft_layers=1", tree, *ALIKE, "--show_tree", "--prompt=ab")
  got = run(generate.main, f"--model={tiny}", *common, "--nocompare")
  rounds = [line for line in got.out.splitlines() if "round " in line]
  passes = got.out.split("target passes")[1].split()[0]
  assert len(rounds) == int(passes)
  assert "of 4 nodes kept" in rounds[0] and '└── "b"' in got.out
  got = run(generate.main, f"--model={tiny}", *common, "--json")
  assert got.status == 1 and "it does not go with --json" in got.err


def test_vllm_s_configuration_stands_for_a_drafter(run, tiny):
  config = '{"method": "ngram", "num_speculative_tokens": 3}'
  (record,) = _json(
    run, tiny, "--prompt=abab", f"--speculative_config={config}",
    *ALIKE,
  )  # fmt: skip
  assert (record["drafter"], record["num_speculative_tokens"]) == ("ngram", 3)


BAD = [
  (["--prompt="], "the prompt is empty"),
  ([], "give --prompt"),
  (["--prompt=a", "--prompt= "], "prompt 2 is empty"),
  (["--num_speculative_tokens=0", "--drafter=ngram"], "use --drafter=none"),
  (["--temperature=-1"], "temperature must be 0 or more"),
  (["--top_p=0"], "top_p must be in"),
  (["--top_p=1.1"], "top_p must be in"),
  (["--drafter=ngramm"], "did you mean 'ngram'"),
  (["--drafter=ngram window=3"], "no setting window; known are num_spec"),
  (["--drafter=ngram max_ngram"], "'max_ngram' is no setting"),
  (
    ["--drafter=ngram num_speculative_tokens=3", "--num_speculative_tokens=4"],
    "--num_speculative_tokens=4 is at odds with --drafter=",
  ),
  (["--drafter=specjax.sampling:draw"], "is no drafter"),
  (["--drafter=model", "--model=org/it"], "needs either a draft model"),
  (["--model=nope"], "unknown model 'nope'"),
  (["--rule=nope"], "unknown rule 'nope'"),
  (["--lenience=0.5"], "goes with --rule=lossy_lenience"),
  (["--acceptance_rate=0.5"], "goes with --rule=lossy_synthetic"),
  (["--rule=lossy_synthetic", "--acceptance_rate=much"], "is no number"),
  (["--rule=lossy_synthetic", "--acceptance_rate=1.5"], "numbers in [0, 1]"),
  (['--speculative_config={"method": "mtp"}'], "method 'mtp' needs"),
  (
    ['--speculative_config={"method": "ngram"}', "--drafter=ngram"],
    "in place of --drafter",
  ),
  (
    [
      '--speculative_config={"method": "ngram", "num_speculative_tokens": 3}',
      "--num_speculative_tokens=5",
    ],
    "at odds with",
  ),
  (["--speculative_config=" + "[" * 100000], "is no JSON"),
  (["--seed=-1"], "seed must be 0 to"),
  (["--seed=4294967296"], "seed must be 0 to"),  # the key of 0 again
  (["--stop="], "must not be empty"),
  (["--batch=0"], "batch must be at least 1"),
  (["--max_new_tokens=0"], "max_new_tokens must be at least 1"),
  (["--prompt_file=/nowhere.jsonl"], "cannot read /nowhere.jsonl"),
  (["--nosuchflag"], "Unknown command line flag"),
  (["--max_new_tokens=many"], "invalid literal"),
  (["text"], "unexpected argument 'text'"),
]


def _refused(got, fault):
  assert got.status in (1, 2)
  assert got.out == ""
  errors = got.err.splitlines()
  errors = [e for e in errors if not e.startswith(("loading ", "compiling"))]
  (line,) = errors
  assert line.startswith("error: ") and fault in line


@pytest.mark.parametrize("argv, fault", BAD, ids=lambda x: str(x)[:40])
def test_bad_input_is_one_line_before_a_model_is_loaded(run, argv, fault):
  prompt = [] if any(a.startswith("--prompt") for a in argv) else ["--prompt=a"]
  prompt = prompt if argv else []
  got = run(generate.main, *prompt, *argv)
  _refused(got, fault)
  assert "loading" not in got.err


@pytest.mark.parametrize(
  "argv, fault",
  [
    (["--prompt=" + "a" * 96], "has 96 tokens"),
    (["--prompt=a", "--drafter=ngram", "--num_speculative_tokens=96"], "lower"),
    (["--prompt=a", "--drafter=model", "--draft_layers=3"], "3 layers"),
    (["--prompt=a", "--chat"], "no chat template"),
  ],
)
def test_what_the_model_cannot_do_is_one_line(run, tiny, argv, fault):
  _refused(run(generate.main, f"--model={tiny}", *argv), fault)


@pytest.mark.parametrize(
  "line, fault",
  [
    ("{", "line 3: no JSON"),
    ('{"text": "a"}', "line 3: needs"),
    ("[" * 100000, "line 3: no JSON"),
    ('["a"]', "line 3: needs"),
    ('{"turns": []}', "line 3: needs"),
    ('{"prompt": 3}', "line 3: needs"),
    ('{"prompt": ""}', "prompt 2 is empty"),
    ('{"prompt": "a", "question_id": NaN}', "line 3: no JSON (NaN"),
    ('{"prompt": "a", "question_id": [1]}', "line 3: question_id must be"),
  ],
)
def test_a_bad_line_of_a_file_is_named(run, tmp_path, line, fault):
  file = tmp_path / "p.jsonl"
  file.write_text(f'{{"prompt": "fine"}}\n\n{line}\n')
  _refused(run(generate.main, f"--prompt_file={file}"), fault)


def test_a_prompt_file_that_is_no_utf_8_is_named_by_line(run, tmp_path):
  file = tmp_path / "p.jsonl"
  file.write_bytes(b'{"prompt": "fine"}\n{"prompt": "Jos\xe9"}\n')
  fault = f"{file}, line 2: byte 0xe9 is no UTF-8"
  _refused(run(generate.main, f"--prompt_file={file}"), fault)


def test_a_truncated_file_is_one_line(run, tmp_path):
  file = tmp_path / "model.gguf"
  file.write_bytes(b"GGUF\x03\x00\x00\x00" + b"\x00" * 9)
  _refused(run(generate.main, "--prompt=a", f"--model={file}"), "model.gguf")


def test_debug_shows_where_an_error_came_from(run):
  with pytest.raises(ValueError, match="unknown model"):
    run(generate.main, "--prompt=a", "--model=nope", "--debug")


@pytest.mark.parametrize("as_json", [False, True])
def test_an_interrupt_shows_what_there_is(run, tiny, monkeypatch, as_json):
  calls, original = [], lanes.Lanes.step

  def step(*args):
    calls.append(args)
    if len(calls) == 3:
      raise KeyboardInterrupt
    return original(*args)

  monkeypatch.setattr(lanes.Lanes, "step", step)
  argv = ("--prompt=abc", *ALIKE, f"--json={as_json}")
  got = run(generate.main, f"--model={tiny}", *argv)
  assert got.status == 130
  assert got.err.splitlines()[-1] == "interrupted"
  if as_json:
    (record,) = got.records
    assert (record["new_tokens"], record["finish_reason"]) == (8, None)
  else:
    assert "new tokens" in got.out and "Traceback" not in got.err


def test_control_c_waits_for_native_code_to_start():
  done = []
  with pytest.raises(KeyboardInterrupt):
    with command.interrupts_held():
      signal.raise_signal(signal.SIGINT)
      done.append(True)
  assert done
  assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_closed_output_is_no_fault(tiny):
  command = f"{sys.executable} -m experiments.generate --model={tiny}"
  got = subprocess.run(
    f"{command} --prompt=abc --max_new_tokens=4 >&-",
    shell=True,
    cwd=ROOT,
    capture_output=True,
    text=True,
  )
  assert got.returncode == 0 and "Traceback" not in got.stderr


def test_control_c_ends_a_stream(tiny):
  command = [sys.executable, "-m", "experiments.generate", f"--model={tiny}"]
  command += ["--prompt=abc", "--max_new_tokens=90", "--temperature=2"]
  command += ["--prompt=def"] * 300
  with subprocess.Popen(
    command,
    cwd=ROOT,
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    env={**os.environ, "PYTHONUNBUFFERED": "1"},
  ) as process:
    first = process.stdout.read(30)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
  assert process.returncode == 130
  assert err.decode().splitlines()[-1] == "interrupted"
  assert b"Traceback" not in err
  assert b"tokens per target pass" in first + out


def test_control_c_waits_for_no_thread():
  main = """
import threading
from concurrent import futures
from experiments import command

def main():
  print("begun")
  futures.ThreadPoolExecutor(1).submit(threading.Event().wait, 60)
  raise KeyboardInterrupt

command.run(main)
"""
  done = subprocess.run(
    [sys.executable, "-c", main],
    cwd=ROOT,
    capture_output=True,
    text=True,
    timeout=40,
  )
  assert (done.returncode, done.stdout) == (130, "begun\n")
  assert done.stderr == "interrupted\n"


def test_help_needs_no_model_and_is_quick():
  before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
  done = subprocess.run(
    [sys.executable, "-m", "experiments.generate", "--help"],
    cwd=ROOT,
    capture_output=True,
    text=True,
    check=True,
  )
  seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
  for flag in ("--prompt", "--drafter", "--top_p", "--[no]json", "--model"):
    assert flag in done.stdout
  assert seconds < 1.0


def test_a_draft_with_another_tokenizer_is_one_line(run, tiny, tmp_path):
  draft = tmp_path / "draft"
  shutil.copytree(tiny, draft)
  file = draft / "tokenizer.json"
  state = json.loads(file.read_text())
  vocab = state["model"]["vocab"]
  vocab["a"], vocab["b"] = vocab["b"], vocab["a"]
  file.write_text(json.dumps(state))
  argv = ("--prompt=a", "--drafter=model", f"--draft_model={draft}")
  got = run(generate.main, f"--model={tiny}", *argv)
  _refused(got, "differs from the target's at id 97: 'a' in the target, 'b'")
