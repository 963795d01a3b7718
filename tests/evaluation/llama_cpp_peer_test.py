"""llama.cpp as a peer, on the default model; where it is installed."""

import pathlib

import pytest

from specjax import checkpoints
from specjax.evaluation.peers import registry
from specjax.evaluation.peers.registry import Request, Settings
from specjax.text import Tokenizer

pytest.importorskip("llama_cpp")

from specjax.evaluation.peers import llama_cpp_peer  # noqa: E402

DATA = pathlib.Path(__file__).resolve().parents[1] / "data"
NEW = 20


def load(name, drafts):
  settings = Settings("smollm2-135m", "float32", 1, drafts, None, None, 1024)
  return llama_cpp_peer.load(registry.kind(name), settings)


def test_lookup_answers_as_plain_decoding_does():
  checkpoint = checkpoints.load()
  tokenizer = Tokenizer.load(checkpoint.tokenizer_source)
  # Longer than a batch of llama.cpp's, so that logits of later places count.
  prompt = tuple(tokenizer.encode("one two three four five six seven " * 90))
  assert 512 < len(prompt) < 1024 - NEW
  plain, lookup = load("llama.cpp plain", 0), load("llama.cpp lookup", 6)
  expected = plain.decode(Request(prompt, NEW, 0.0, 0, ()))
  assert expected.rounds == ((0, 0, 1, 1),) * NEW
  for _ in range(2):  # nothing of the first answer is left over
    answer = lookup.decode(Request(prompt, NEW, 0.0, 0, ()))
    assert answer.token_ids == expected.token_ids
    assert answer.passes == len(answer.rounds) < NEW
    assert sum(emitted for _, _, emitted, _ in answer.rounds) == NEW
    assert answer.rounds[0][3] == 1  # only the prompt's last token is left
    assert any(accepted == 6 for _, accepted, _, _ in answer.rounds)
  end = expected.token_ids[3]
  ended = lookup.decode(Request(prompt, NEW, 0.0, 0, (end,)))
  first = expected.token_ids.index(end)
  assert ended.token_ids == expected.token_ids[: first + 1]
  assert ended.finish_reason == "eos"


def test_draws_are_seeded_and_unfiltered():
  decoder = load("llama.cpp plain", 0)
  first = decoder.decode(Request((5, 9), 60, 1e4, 0, ()))
  again = decoder.decode(Request((5, 9), 60, 1e4, 0, ()))
  other = decoder.decode(Request((5, 9), 60, 1e4, 1, ()))
  assert first.token_ids == again.token_ids != other.token_ids
  # All but uniform over 49,152: 40 likeliest alone would come back often.
  assert len(set(first.token_ids)) > 50


def test_only_gguf_files_are_read():
  kind = registry.kind("llama.cpp plain")
  folder = str(DATA / "hf" / "llama_untied_8_2")
  settings = Settings(folder, "float32", 1, 0, None, None, 64)
  with pytest.raises(ValueError, match="llama.cpp reads GGUF files"):
    llama_cpp_peer.load(kind, settings)
