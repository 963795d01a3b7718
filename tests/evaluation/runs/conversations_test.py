"""Prompts of a conversation, as ids or as the text that says it all."""

import pytest

from specjax.evaluation.questions import Question
from specjax.evaluation.runs import conversations
from tests.byte_tokenizer import byte_tokenizer

TEMPLATE = "{% for m in messages %}<{{ m.role[0] }}>{{ m.content }}{% endfor %}"


def text(ids):
  return byte_tokenizer().decode(ids)


def test_the_beginning_follows_the_last_turn_alone():
  tokenizer = byte_tokenizer()
  question = Question(("ab", "cd"), {}, "EF")
  first = conversations.prompt(tokenizer, question, [], False)
  last = conversations.prompt(tokenizer, question, ["xy"], False)
  assert first == "ab" and text(last) == "ab\nxy\ncdEF"


def test_a_chat_s_turns_go_through_the_template():
  tokenizer = byte_tokenizer(TEMPLATE)
  question = Question(("ab", "cd"), {})
  got = conversations.prompt(tokenizer, question, ["xy"], True)
  assert text(got) == "<u>ab<a>xy<u>cd"


def test_begun_needs_a_tokenizer():
  with pytest.raises(ValueError, match="without a tokenizer"):
    conversations.prompt(None, Question(("ab",), {}, "c"), [], False)


def test_the_template_is_used_where_there_is_one():
  assert not conversations.wants_chat(byte_tokenizer(), None)
  assert conversations.wants_chat(byte_tokenizer(TEMPLATE), None)
  assert not conversations.wants_chat(byte_tokenizer(TEMPLATE), False)
  assert not conversations.wants_chat(None, None)
