"""Conversations that a model makes: the same however they are made."""

import json

import pytest

from specjax.drafters import NGram
from specjax.training.data import (
  Making,
  Prompt,
  answer_prompts,
  make_synthetic,
  read_conversations,
  stored_prompts,
)

MAKING = Making(
  count=24,
  seed=3,
  temperatures=(1.0, 0.0, 0.7),
  max_new_tokens=12,
  max_prompt_tokens=30,
  max_query_tokens=12,
  min_query_tokens=3,
  batch=2,
  group=8,
)


def _with(**changes):
  return Making(**{**vars(MAKING), **changes})


@pytest.fixture(scope="module")
def made(chatty, tmp_path_factory):
  file = tmp_path_factory.mktemp("made") / "c.jsonl"
  said = []
  progress = make_synthetic(chatty, file, MAKING, say=said.append)
  assert said[-1] == progress.line() and "tokens/s" in said[-1]
  return file, progress


def test_queries_are_the_models_own_and_answered_in_its_template(made, chatty):
  file, progress = made
  kept, tokenizer = read_conversations(file), chatty.tokenizer
  dropped = sum(progress.dropped.values())
  assert 0 < dropped == MAKING.count - len(kept) < MAKING.count
  assert set(progress.dropped) <= {"empty", "endless", "short", "duplicate"}
  assert len({c.prompt_id for c in kept}) == len(kept)
  for c in kept:
    ((start, end),) = c.answers
    assert end == len(c.token_ids) and 1 <= end - start <= 12
    assert c.temperature == MAKING.temperatures[int(c.id) % 3]
    query = tokenizer.decode(c.token_ids[:start])
    query = query.removeprefix("<user>").removesuffix("<answer>")
    assert query and set(query) <= set("abcdef ")
    message = [{"role": "user", "content": query}]
    assert list(c.token_ids[:start]) == tokenizer.encode_chat(message)
    # An answer ends with the end of the text, or is as long as may be.
    assert (c.token_ids[-1] == 256) or end - start == 12
    assert 256 not in c.token_ids[start : end - 1]


def test_each_answer_at_temperature_0_is_the_likeliest(made, chatty):
  table = chatty.params["table"]
  greedy = [c for c in read_conversations(made[0]) if c.temperature == 0]
  assert greedy
  for c in greedy:
    ((start, end),) = c.answers
    for place in range(start, end):
      assert c.token_ids[place] == table[c.token_ids[place - 1]].argmax()


def test_a_query_without_an_end_can_be_asked_as_far_as_it_is(
  made, chatty, tmp_path
):
  file = tmp_path / "c.jsonl"
  progress = make_synthetic(chatty, file, _with(cut_queries=True))
  endless = made[1].dropped["endless"]
  assert endless and "endless" not in progress.dropped
  before = {c.id for c in read_conversations(made[0])}
  new = [c for c in read_conversations(file) if c.id not in before]
  again = sum(progress.dropped.values()) - sum(made[1].dropped.values())
  assert len(new) == -again > 0
  for c in new:
    query = chatty.tokenizer.decode(c.token_ids[: c.answers[0][0]])
    query = query.removeprefix("<user>").removesuffix("<answer>")
    assert 0 < len(query) <= MAKING.max_query_tokens  # a token a letter


def test_neither_batch_nor_group_nor_drafter_changes_a_byte(
  made, chatty, tmp_path
):
  file, making = tmp_path / "c.jsonl", _with(batch=3, group=24)
  make_synthetic(chatty, file, making, drafter=NGram(2, 1, 2))
  assert file.read_bytes() == made[0].read_bytes()


@pytest.mark.parametrize("share", [0.03, 0.5])
def test_a_killed_run_goes_on_to_the_same_bytes(made, chatty, tmp_path, share):
  whole = made[0].read_bytes()
  file = tmp_path / "c.jsonl"
  file.write_bytes(whole[: int(len(whole) * share)])
  progress = make_synthetic(chatty, file, MAKING)
  assert file.read_bytes() == whole
  assert progress.dropped == made[1].dropped


def test_more_are_appended_and_other_settings_refused(made, chatty, tmp_path):
  file = tmp_path / "c.jsonl"
  make_synthetic(chatty, file, _with(count=8))
  assert made[0].read_bytes().startswith(file.read_bytes())
  before = file.read_bytes()
  with pytest.raises(ValueError, match="seed is 3 there and 4 now"):
    make_synthetic(chatty, file, _with(seed=4))
  assert file.read_bytes() == before
  file.write_text(json.dumps({"id": "0", "dropped": "short"}) + "\n")
  with pytest.raises(ValueError, match="states no settings"):
    make_synthetic(chatty, file, MAKING)


def test_given_prompts_and_those_of_stored_texts_are_answered(
  made, chatty, draft, tmp_path
):
  stored = read_conversations(made[0])
  prompts = stored_prompts(stored)[:5]
  long = Prompt((1,) * 31, "long")
  making = _with(count=8, group=6)
  file = tmp_path / "on_policy.jsonl"
  progress = answer_prompts(
    draft, file, [*prompts, long], making, source="draft"
  )
  assert progress.dropped == {"long": 1}
  kept = read_conversations(file)
  assert [c.id for c in kept] == ["0", "1", "2", "3", "4", "6", "7"]
  assert {c.source for c in kept} == {"draft"}
  for c in kept:
    prompt = prompts[int(c.id) % 6]
    assert c.token_ids[: c.answers[0][0]] == prompt.token_ids
    assert c.prompt_id == prompt.prompt_id
  again = [c for c in kept if int(c.id) % 6 == 0]
  assert again[0].token_ids != again[1].token_ids  # other draws
  with pytest.raises(ValueError, match="model is .* there"):
    answer_prompts(chatty, file, [*prompts, long], making, source="draft")


@pytest.mark.parametrize(
  "changes, reason",
  [
    (dict(count=0), "count must be at least 1"),
    (dict(temperatures=()), "one temperature or more"),
    (dict(temperatures=(-1.0,)), "temperature"),
    (dict(seed=-1), "seed must be"),
  ],
)
def test_settings_out_of_their_range_are_refused(changes, reason):
  with pytest.raises(ValueError, match=reason):
    _with(**changes)


def test_what_does_not_fit_the_context_is_refused_first(chatty, tmp_path):
  with pytest.raises(ValueError, match="room for 128"):
    make_synthetic(chatty, tmp_path / "c.jsonl", _with(max_new_tokens=100))
  with pytest.raises(ValueError, match="no prompt"):
    answer_prompts(chatty, tmp_path / "c.jsonl", [], MAKING)
  assert not list(tmp_path.iterdir())
