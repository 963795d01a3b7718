"""The protocol, with a peer that counts upwards in a process of its own."""

import importlib.util
import os
import signal

import pytest

from specjax.evaluation import peers
from specjax.evaluation.peers import process, registry
from specjax.evaluation.peers.registry import Kind

FAKE = """
import os
import time
from specjax.evaluation.peers.registry import PeerAnswer


def load(kind, settings):
  if settings.model == "unreadable":
    raise ValueError("no such model:\\n  unreadable")
  return Counter(settings)


class Counter:
  def __init__(self, settings):
    self.versions = {"fake": "1", "threads": os.environ["OMP_NUM_THREADS"]}

  def decode(self, request):
    print("noise of a library on standard output")
    first = request.prompt_ids[-1] + 1
    if first == 100:
      os.abort()
    if first == 200:
      raise KeyError("200")
    if first == 300:
      time.sleep(600)
    count = request.max_new_tokens
    tokens = tuple(range(first, first + count))
    ends = [t for t in tokens if t in request.eos_ids]
    if ends:
      tokens = tokens[: tokens.index(ends[0]) + 1]
    rounds = tuple((0, 0, 1, 1) for _ in tokens)
    return PeerAnswer(
      token_ids=tokens,
      passes=len(tokens),
      prefill_s=0.5,
      decode_s=0.25 * len(tokens),
      finish_reason="eos" if ends else "length",
      rounds=rounds,
    )
"""


@pytest.fixture(autouse=True)
def fake_kind(tmp_path, monkeypatch):
  (tmp_path / "fake_peer.py").write_text(FAKE)
  monkeypatch.setenv("PYTHONPATH", str(tmp_path))
  kinds = {
    "fake": Kind("fake", "torch", "none", "fake_peer", ("json",)),
    "fake lookup": Kind("fake lookup", "torch", "ngram", "fake_peer", (), 10),
    "absent": Kind("absent", "torch", "none", "fake_peer", ("no_such_thing",)),
  }
  for name, kind in kinds.items():
    monkeypatch.setitem(registry.KINDS, name, kind)


REQUEST = dict(max_new_tokens=1, temperature=0.0, seed=0, eos_ids=[])


def alive(pid):
  try:
    os.kill(pid, 0)
  except ProcessLookupError:
    return False
  return True


def test_a_peer_answers_requests_one_after_another():
  with peers.start("fake", model="any", threads=3) as peer:
    assert peer.versions == {"fake": "1", "threads": "3"}
    answer = peer.decode([5, 6], 4)
    assert answer.token_ids == (7, 8, 9, 10)
    assert answer.finish_reason == "length"
    assert answer.rounds == ((0, 0, 1, 1),) * 4
    assert (answer.passes, answer.prefill_s, answer.decode_s) == (4, 0.5, 1.0)
    assert (answer.tokens_per_s, answer.tokens_per_pass) == (4.0, 1.0)
    ended = peer.decode([5, 6], 4, eos_ids=[8])
    assert (ended.token_ids, ended.finish_reason) == ((7, 8), "eos")


def test_a_failed_request_leaves_the_peer_alive():
  with peers.start("fake", model="any") as peer:
    with pytest.raises(ValueError, match="^fake: KeyError: '200'$"):
      peer.decode([199], 1)
    assert peer.decode([1], 1).token_ids == (2,)


def test_a_crash_is_one_line():
  with peers.start("fake", model="any") as peer:
    with pytest.raises(ValueError, match=r"fake died \(status -6\)") as caught:
      peer.decode([99], 1)
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="fake died"):
      peer.decode([1], 1)


def test_a_model_that_does_not_load_is_one_line():
  with pytest.raises(ValueError) as caught:
    peers.start("fake", model="unreadable")
  assert str(caught.value) == "fake: ValueError: no such model: unreadable"


def test_prompts_that_do_not_fit_are_refused():
  with peers.start("fake", model="any", max_context=8) as peer:
    with pytest.raises(ValueError, match="context of 8: raise max_context"):
      peer.decode([1] * 6, 3)
    with pytest.raises(ValueError, match="one new token"):
      peer.decode([], 3)
    assert len(peer.decode([1] * 5, 3).token_ids) == 3


def test_closing_ends_a_busy_process():
  peer = peers.start("fake", model="any")
  peer._send({**REQUEST, "prompt_ids": [299]})
  peer.close()
  peer.close()
  assert not alive(peer.pid)
  with pytest.raises(ValueError, match="fake is closed"):
    peer.decode([1], 1)


def test_an_interrupt_ends_the_process(monkeypatch):
  with pytest.raises(KeyboardInterrupt):
    with peers.start("fake", model="any") as peer:
      assert os.getpgid(peer.pid) != os.getpgrp()
      receive = peer._receive

      def interrupted():
        signal.raise_signal(signal.SIGINT)
        return receive()

      monkeypatch.setattr(peer, "_receive", interrupted)
      peer.decode([299], 1)
  assert not alive(peer.pid)


def test_an_interrupt_while_it_loads_ends_the_process(monkeypatch):
  pids = []

  def interrupted(peer):
    pids.append(peer.pid)
    raise KeyboardInterrupt

  monkeypatch.setattr(process.Peer, "_receive", interrupted)
  with pytest.raises(KeyboardInterrupt):
    peers.start("fake", model="any")
  assert not alive(pids[0])


def test_a_peer_without_its_parent_ends():
  peer = peers.start("fake", model="any")
  peer._child.stdin.close()  # as the system does when the parent is killed
  assert peer._child.wait(timeout=30) == 0
  peer.close()


@pytest.mark.parametrize(
  "name, options, fault",
  [
    ("absent", {}, r"absent needs no_such_thing: pip install .*\[compare\]"),
    ("fakes", {}, "did you mean 'fake'"),
    ("vllm", {}, "known: "),
    ("fake", {"num_speculative_tokens": 3}, "must be 0, got 3"),
    ("fake lookup", {"num_speculative_tokens": 0}, "at least 1, got 0"),
    ("fake lookup", {"draft_layers": 2}, "takes no draft_model"),
    ("fake", {"dtype": "float16"}, "dtype must be float32 or bfloat16"),
  ],
)
def test_what_cannot_start_is_refused(name, options, fault):
  with pytest.raises(ValueError, match=fault):
    peers.start(name, model="any", **options)


def test_modes_say_what_a_peer_does():
  with peers.start("fake lookup", model="any") as peer:
    mode = peer.mode(temperature=0.5)
  assert (mode.name, mode.drafter, mode.system) == (
    "fake lookup",
    "ngram",
    "torch",
  )
  assert (mode.num_speculative_tokens, mode.temperature) == (10, 0.5)
  assert mode.lossless and not mode.is_plain
  settings = peers.Settings("any", "float32", 1, 0, None, None, 64)
  other = registry.mode(peers.kind("llama.cpp plain"), 0.0, settings)
  assert other.lossless is None and other.is_plain


@pytest.mark.parametrize("name", peers.NAMES)
def test_a_missing_package_is_named(name):
  lacking = [
    package
    for package in registry.KINDS[name].packages
    if importlib.util.find_spec(package) is None
  ]
  reason = peers.available(name)
  assert (reason is None) == (not lacking)
  assert all(package in reason for package in lacking)
