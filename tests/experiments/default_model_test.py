"""The default model through the first command."""

import jax
import pytest

import specjax
from experiments import generate
from specjax.drafters import shipped

PROMPT = "--prompt=Repeat after me: one two three"


@pytest.fixture(autouse=True, scope="module")
def room():
  """Programs of other tests are dropped before these large ones come."""
  jax.clear_caches()


def _one(run, *argv):
  got = run(generate.main, PROMPT, "--json", *argv)
  assert got.status == 0, got.err
  (record,) = got.records
  return record


def test_prompt_lookup_gives_plain_decoding_s_tokens(run):
  lookup = _one(run, "--drafter=ngram", "--max_new_tokens=32", "--compare")
  plain = _one(run, "--drafter=none", "--max_new_tokens=32")
  assert lookup["token_ids"] == plain["token_ids"]
  assert lookup["plain"]["identical"]
  assert lookup["text"] == "One two three."
  assert lookup["finish_reason"] == "eos"
  assert lookup["rounds"] <= plain["rounds"] == plain["new_tokens"]


def test_what_is_shipped_gives_plain_decoding_s_tokens():
  target = specjax.load_model("smollm2-135m")
  prompt = [[{"role": "user", "content": "Tell me about lighthouses."}]]
  # As many tokens as above: plain decoding shares its programs.
  options = dict(sampling=specjax.Sampling(temperature=0.0), max_new_tokens=32)
  plain = specjax.generate(target, prompt, **options)
  made = {
    name: specjax.load_drafter(name, target, num_speculative_tokens=2)
    for name in shipped.names()
  }
  drafter, draft = made["smollm2-135m:eagle3"]
  out = specjax.generate(
    target, prompt, drafter=drafter, draft=draft, **options
  )
  assert out.tokens == plain.tokens
  assert out.stats.accepted > 0
