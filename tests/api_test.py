"""Strings in, strings out, on models whose law is a table."""

import dataclasses
import re
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tokenizers
from tokenizers import decoders, models, pre_tokenizers

import specjax
from specjax import acceptance, api, decoding
from specjax.api import generation, lanes
from specjax.checkpoints.loaded import LoadedModel
from specjax.drafters import DraftModel, NGram
from specjax.testing import tables
from specjax.text import Tokenizer

VOCAB = 7
PROMPTS = [[1, 2], [3], [4, 5, 6, 1, 2, 3], [2, 2, 2], [6, 5]]
SAMPLING = api.Sampling(temperature=[0.8, 0.0, 1.0, 0.7, 1.2], top_p=0.9)


def _table(order=2, seed=0):
  return tables.random_table(seed, VOCAB, order)


TARGET = LoadedModel("table", tables.TableModel(VOCAB, 2), _table())
DRAFT = tables.blur(_table(), 1, 0.5)
MODEL_DRAFT = dict(drafter=DraftModel(TARGET.model, 3), draft=DRAFT)


def _letters():
  """A tokenizer of seven pieces, the last of which ends the text."""
  pieces = {"a": 0, "b": 1, "ab": 2, "Ċ": 3, "Ã": 4, "©": 5, "</s>": 6}
  backend = tokenizers.Tokenizer(models.BPE(vocab=pieces, merges=[("a", "b")]))
  backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
  backend.decoder = decoders.ByteLevel()
  backend.add_special_tokens(["</s>"])
  return Tokenizer(backend, eos_ids=(6,))


def _cycle(*tokens):
  """A target that says the tokens in turn, whatever the prompt's end."""
  table = np.full((VOCAB, VOCAB), -9.0, np.float32)
  for token, following in zip(tokens, tokens[1:] + tokens[:1], strict=True):
    table[token, following] = 9.0
  model = tables.TableModel(VOCAB, 1, max_positions=40)
  params = {"table": jnp.asarray(table)}
  return LoadedModel("cycle", model, params, _letters())


def test_exact_match_gives_plain_tokens_whatever_the_batch():
  options = dict(sampling=SAMPLING, max_new_tokens=20, key=jax.random.key(4))
  plain = api.generate(TARGET, PROMPTS, **options)
  assert plain.rule == "exact_match" and plain.lossless
  assert [len(t) for t in plain.tokens] == [20] * 5
  for extra in (
    dict(drafter=NGram(3, 1, 2)),
    dict(drafter=NGram(3, 1, 2), max_batch=2),
    dict(**MODEL_DRAFT, rule=acceptance.ExactMatch(), max_batch=3),
  ):
    out = api.generate(TARGET, PROMPTS, **options, **extra)
    assert out.tokens == plain.tokens
    assert out.stats.accepted > 0


@pytest.mark.parametrize("max_batch", [1, 3])
def test_late_rows_give_their_solo_output(max_batch):
  options = dict(max_new_tokens=24, key=jax.random.key(9), **MODEL_DRAFT)
  settings = api.Sampling(temperature=0.9)
  whole = api.generate(TARGET, PROMPTS, sampling=settings, **options)
  assert whole.rule == "rejection"
  lane = api.generate(
    TARGET, PROMPTS, sampling=settings, max_batch=max_batch, **options
  )
  assert lane.tokens == whole.tokens
  # The width of a pass follows the batch; what a row does in it does not.
  for alone, together in zip(lane.row_stats, whole.row_stats, strict=True):
    assert dataclasses.replace(alone, widths=together.widths) == together
  assert 0 < lane.lane_use <= 1
  if max_batch == 1:
    assert lane.lane_use == 1


def test_a_key_a_prompt_is_used_as_it_is():
  options = dict(sampling=api.Sampling(temperature=1.0), max_new_tokens=12)
  key = jax.random.key(2)
  both = api.generate(TARGET, PROMPTS[:2], key=key, **options)
  second = jax.random.fold_in(key, 1)[None]
  alone = api.generate(TARGET, PROMPTS[1:2], key=second, **options)
  assert alone.tokens[0] == both.tokens[1]
  again = api.generate(TARGET, PROMPTS[:2], key=key, **options)
  assert again.tokens == both.tokens


def test_a_loop_that_was_left_goes_on_where_it_was():
  options = dict(max_new_tokens=7, key=jax.random.key(1), max_batch=2)
  whole = api.generate(TARGET, PROMPTS, **options)
  run = api.stream(TARGET, PROMPTS, **options)
  tokens = [[] for _ in PROMPTS]
  while len(run.output.tokens[-1]) < 7:
    for event in run:
      tokens[event.index] += event.tokens
      break  # between the rows of a dispatch
  for event in run:
    tokens[event.index] += event.tokens
  assert tuple(map(tuple, tokens)) == whole.tokens


@pytest.mark.parametrize("max_batch, rounds", [(1, 1), (2, 3)])
def test_events_add_up_to_the_output(max_batch, rounds):
  options = dict(sampling=SAMPLING, max_new_tokens=17, key=jax.random.key(1))
  options |= dict(drafter=NGram(3, 1, 2))
  whole = api.generate(TARGET, PROMPTS, **options)
  run = api.stream(
    TARGET, PROMPTS, max_batch=max_batch, rounds_per_event=rounds, **options
  )
  tokens = [[] for _ in PROMPTS]
  accepted = [0] * len(PROMPTS)
  ends = []
  for event in run:
    tokens[event.index] += event.tokens
    accepted[event.index] += sum(event.accepted)
    if event.finish_reason:
      ends.append(event.index)
  assert tuple(map(tuple, tokens)) == whole.tokens == run.output.tokens
  assert accepted == [s.accepted for s in whole.row_stats]
  assert sorted(ends) == [0, 1, 2, 3, 4]
  assert run.select([3]).tokens == (whole.tokens[3],)


def test_an_end_of_text_token_ends_a_row_and_is_not_shown():
  out = api.generate(_cycle(0, 1, 6), ["a"], drafter=NGram(3, 1, 2))
  assert (out.texts, out.tokens) == (("b",), ((1, 6),))
  assert out.finish_reasons == ("eos",)
  out = api.generate(
    _cycle(0, 1, 6), ["a"], drafter=NGram(3, 1, 2), ignore_eos=True,
    max_new_tokens=9,
  )  # fmt: skip
  assert (out.finish_reasons, len(out.tokens[0])) == (("length",), 9)


def test_a_stop_string_inside_a_burst_is_cut_off():
  target = _cycle(0, 1, 3, 2)
  # After "a" it says b, newline, ab, a, b, newline, ...
  options = dict(drafter=NGram(3, 1, 2), max_new_tokens=30)
  out = api.generate(target, ["a"], stop=["bb", "\nabab\n"], **options)
  assert out.finish_reasons == ("stop",)
  assert out.texts == ("b",)
  run = api.stream(target, ["a"], stop=["\nabab\n"], **options)
  texts = [event.text for event in run]
  assert "".join(texts) == run.output.texts[0] == "b"
  assert texts[0] == "b" and not any(texts[1:])


def test_held_back_text_comes_when_no_stop_string_follows():
  target = _cycle(0, 1, 3, 2)
  options = dict(max_new_tokens=7, stop=["\nabb"], drafter=NGram(3, 1, 2))
  run = api.stream(target, ["a"], **options)
  texts = [event.text for event in run]
  assert run.output.finish_reasons == ("length",)
  assert "".join(texts) == run.output.texts[0] == "b\nabab\nab"


def test_half_a_character_is_never_shown():
  run = api.stream(_cycle(4, 5), [[4]], max_new_tokens=4)
  events = list(run)
  # It says the second byte, which alone is no character, then é's two bytes.
  assert [e.text for e in events] == ["\ufffd", "", "é", "\ufffd"]
  assert run.output.texts == ("\ufffdé\ufffd",)


def test_accepted_draft_tokens_are_marked_in_the_text():
  run = api.stream(_cycle(0, 1), [[0, 1, 0, 1]], drafter=NGram(3, 1, 2),
                   max_new_tokens=8)  # fmt: skip
  events = list(run)
  shown = [piece for event in events for piece in event.pieces]
  marked = sum(len(text) for text, flag in shown if flag)
  assert marked == run.output.stats.accepted == 6
  assert "".join(text for text, _ in shown) == run.output.texts[0]


def test_the_end_of_the_context_ends_a_row():
  out = api.generate(_cycle(0, 1), [[0] * 30, [0] * 39], drafter=NGram(3, 1, 2))
  assert out.finish_reasons == ("length", "length")
  assert [len(t) for t in out.tokens] == [10, 1]


def test_logprobs_are_raw_and_of_the_emitted_tokens():
  settings = api.Sampling(temperature=0.5, top_k=3)
  out = api.generate(
    TARGET,
    PROMPTS[:2],
    sampling=settings,
    logprobs=True,
    max_new_tokens=9,
    drafter=NGram(3, 1, 2),
    max_batch=1,
  )
  table = np.asarray(jax.nn.log_softmax(TARGET.params["table"], -1))
  for prompt, tokens, got in zip(
    PROMPTS, out.tokens, out.logprobs, strict=False
  ):
    text = [0, *prompt, *tokens]
    want = [table[text[i - 2], text[i - 1], text[i]] for i in range(-9, 0)]
    np.testing.assert_allclose(got, want, atol=1e-5)


def test_like_sizes_share_their_programs():
  options = dict(drafter=NGram(3, 1, 2), sampling=api.Sampling(temperature=1.0))
  api.generate(TARGET, [[1] * 9, [2]], max_new_tokens=30, **options)
  sizes = decoding.decode._cache_size(), decoding.prefill._cache_size()
  out = api.generate(TARGET, [[3] * 5, [1, 2]], max_new_tokens=28, **options)
  assert sizes == (
    decoding.decode._cache_size(),
    decoding.prefill._cache_size(),
  )
  assert out.timings.decode_s > 0 and out.timings.prefill_s > 0


def test_buckets_grow_by_half_and_third():
  assert [lanes.bucket(n) for n in (1, 32, 33, 48, 49, 65, 97, 1000)] == [
    32, 32, 48, 48, 64, 96, 128, 1024,
  ]  # fmt: skip


def test_an_interrupt_loses_nothing_that_was_yielded(monkeypatch):
  run = api.stream(TARGET, PROMPTS[:1], max_new_tokens=20)
  seen = []
  original = decoding.decode

  def interrupted(*args):
    if len(seen) == 5:
      raise KeyboardInterrupt
    return original(*args)

  with pytest.raises(KeyboardInterrupt):
    for event in run:
      seen += event.tokens
      monkeypatch.setattr(decoding, "decode", interrupted)
  assert run.output.tokens == (tuple(seen),)
  assert run.output.finish_reasons == (None,)
  assert run.output.stats.emitted == 5


def test_an_interrupt_waits_for_no_compilation(monkeypatch):
  begun, end, left = threading.Event(), threading.Event(), []

  def compiling(*_):
    begun.set()
    left.append(end.wait(60))

  def interrupted(*_):
    assert begun.wait(60)
    raise KeyboardInterrupt

  monkeypatch.setattr(lanes, "_warm", set())
  monkeypatch.setattr(lanes.Lanes, "_warm_rounds", compiling)
  monkeypatch.setattr(lanes.Lanes, "_prefill", interrupted)
  with pytest.raises(KeyboardInterrupt):
    api.generate(TARGET, PROMPTS[:1], max_new_tokens=20)
  assert not left
  end.set()


@pytest.mark.parametrize(
  "prompts, options, fault",
  [
    ([], {}, "no prompt"),
    ("text", {}, "must be a list"),
    ([[]], {}, "empty"),
    ([[1], []], {}, "prompt 2: the prompt is empty"),
    ([[1, VOCAB]], {}, "outside the vocabulary"),
    (["hi"], {}, "no tokenizer"),
    ([b"hi"], {}, "a prompt is a string, .* got b'hi'"),
    ([[True]], {}, "a list of token ids, got"),
    ([[1]], dict(stop="xy"), "stop must be a list of strings"),
    ([[1]], dict(max_new_tokens=0), "max_new_tokens must be at least 1"),
    ([[1]], dict(max_batch=0), "max_batch must be at least 1"),
    ([[1]], dict(stop=["x"]), "no tokenizer"),
    ([[1]], dict(key=jax.random.split(jax.random.key(0), 2)), "keys of shape"),
    ([[1]], dict(sampling=api.Sampling(top_k=[1, 2])), "2 values of top_k"),
  ],
)
def test_bad_requests_are_refused(prompts, options, fault):
  with pytest.raises(ValueError, match=fault):
    api.generate(TARGET, prompts, **options)


@pytest.mark.parametrize(
  "prompts, options, fault",
  [
    (["  "], {}, "empty"),
    ([[0] * 40], {}, "40 tokens and cycle takes 40"),
    (["a"], dict(drafter=NGram(40)), "do not fit the context"),
    (["a"], dict(stop=[""]), "must not be empty"),
    (["a"], dict(chat=True), "no chat template"),
    ([[{"role": "user", "content": "a"}]], {}, "no chat template"),
  ],
)
def test_bad_text_requests_are_refused(prompts, options, fault):
  with pytest.raises(ValueError, match=fault):
    api.generate(_cycle(0, 1), prompts, **options)


@pytest.mark.parametrize(
  "values, fault",
  [
    (dict(temperature=-0.1), "temperature"),
    (dict(temperature=float("nan")), "temperature"),
    (dict(top_p=0.0), "top_p"),
    (dict(top_p=1.5), "top_p"),
    (dict(top_k=-1), "top_k"),
    (dict(min_p=2.0), "min_p"),
    (dict(top_p=[0.5, 0.0]), "top_p"),
    (dict(top_p=[0.5], top_k=[1, 2]), "different lengths"),
  ],
)
def test_bad_sampling_is_refused(values, fault):
  with pytest.raises(ValueError, match=fault):
    specjax.Sampling(**values)


def test_a_rule_that_cannot_judge_the_drafter_is_refused():
  @dataclasses.dataclass(frozen=True)
  class Siblings(NGram):
    siblings = "iid"

  with pytest.raises(ValueError, match="judges chain siblings"):
    api.generate(TARGET, [[1]], drafter=Siblings(), rule=acceptance.Rejection())


class _Unhashable(NGram):
  __hash__ = None


@pytest.mark.parametrize(
  "options, fault",
  [
    (dict(drafter=NGram), "a value such as NGram()"),
    (dict(drafter=_Unhashable()), "_Unhashable cannot be hashed"),
    (dict(rule=acceptance.Rejection), "a value such as Rejection()"),
  ],
)
def test_a_class_is_no_drafter_and_no_rule(options, fault):
  with pytest.raises(ValueError, match=re.escape(fault)):
    api.generate(TARGET, PROMPTS, **options)


def test_a_lossy_rule_is_called_so():
  rule = acceptance.LossyLenience(0.5)
  out = api.generate(TARGET, [[1]], rule=rule, max_new_tokens=4, **MODEL_DRAFT)
  assert (out.rule, out.lossless) == ("lossy_lenience", False)


def test_a_draft_model_alone_is_a_drafter_and_its_vocabulary_is_compared():
  target = _cycle(0, 1)
  out = api.generate(target, ["a"], draft=target, max_new_tokens=6)
  assert out.rule == "rejection" and out.stats.accepted == 4
  swapped = models.BPE(vocab={"b": 0, "a": 1}, merges=[])
  backend = tokenizers.Tokenizer(swapped)
  backend.decoder = decoders.ByteLevel()
  other = dataclasses.replace(target, tokenizer=Tokenizer(backend))
  with pytest.raises(ValueError, match="differs from the target's at id 0"):
    api.generate(target, ["a"], draft=other)


@pytest.mark.parametrize("key", [0, np.zeros(2, np.uint32)])
def test_a_key_that_is_not_typed_is_refused(key):
  with pytest.raises(ValueError, match="typed key"):
    generation._row_keys(key, 2)
