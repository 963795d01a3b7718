"""Chat templates: rendering, errors and attacks."""

import dataclasses
import re

import pytest

from specjax.text import TextError

USER = [{"role": "user", "content": "Hi <b>"}]


def with_template(tokenizer, template):
  return dataclasses.replace(tokenizer, chat_template=template)


def test_the_default_model(smollm2):
  text = smollm2.render_chat(USER)
  assert text == (
    "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained"
    " by Hugging Face<|im_end|>\n<|im_start|>user\nHi <b><|im_end|>\n"
    "<|im_start|>assistant\n"
  )
  closed = smollm2.render_chat(USER, add_generation_prompt=False)
  assert text == closed + "<|im_start|>assistant\n"
  turns = [
    {"role": "system", "content": "Be brief."},
    *USER,
    {"role": "assistant", "content": "Hello"},
  ]
  assert smollm2.render_chat(turns, False) == (
    "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi <b>"
    "<|im_end|>\n<|im_start|>assistant\nHello<|im_end|>\n"
  )


def test_ids_of_a_chat_hold_special_tokens(smollm2):
  ids = smollm2.encode_chat(USER)
  assert ids.count(1) == 3 and ids.count(2) == 2
  assert smollm2.decode(ids, skip_special=False) == smollm2.render_chat(USER)


def test_a_template_that_writes_bos_gives_one(sentencepiece):
  tokenizer = with_template(
    sentencepiece, "{{ bos_token }}{{ messages[0].role }}"
  )
  assert tokenizer.encode_chat(USER).count(1) == 1
  assert tokenizer.encode(tokenizer.render_chat(USER)).count(1) == 1


@pytest.mark.parametrize(
  "template,expected",
  [
    # Blocks leave no line of their own.
    ("{% for m in messages %}\n  {% if true %}\n{{ m.role }}\n  {% endif %}\n"
     "{% endfor %}", "user\n"),
    ("{% for i in range(9) %}{% if i == 3 %}{% break %}{% endif %}{{ i }}"
     "{% endfor %}", "012"),
    ("{{ {'b': 'é<', 'a': 1} | tojson }}", '{"b": "é<", "a": 1}'),
    ("{{ [1] | tojson(indent=2) }}", "[\n  1\n]"),
    ("{{ eos_token }}{{ tools is defined }}{{ extra }}", "<|im_end|>False7"),
    ("{{ '-' * 3 }}", "---"),
    ("{% set ns = namespace(n=1) %}{% set ns.n = 2 %}{{ ns.n }}", "2"),
  ],
)  # fmt: skip
def test_what_templates_use(smollm2, template, expected):
  tokenizer = with_template(smollm2, template)
  assert tokenizer.render_chat(USER, extra=7) == expected


def test_dates(smollm2):
  text = with_template(smollm2, "{{ strftime_now('%Y') }}").render_chat(USER)
  assert re.fullmatch(r"20\d\d", text)


@pytest.mark.parametrize(
  "template,match",
  [
    ("{{ raise_exception('roles must\nalternate') }}", "roles must alternate"),
    ("{% for %}", "Expected"),
    ("{{ messages[0].content.nothing.more }}", "no attribute"),
    ("{{ ''.__class__.__mro__ }}", "unsafe"),
    ("{{ messages.append.__globals__ }}", "unsafe|undefined|no attribute"),
    ("{{ raise_exception.__globals__.x }}", "unsafe"),
    ("{{ messages.clear() }}", "unsafe"),
    ("{{ ''|attr('__class__') }}{{ (''|attr('__class__')).x }}", "unsafe"),
    ("{{ 'a' * 10**9 }}", "large values"),
    ("{{ 'a' * 100000000 }}", "large values"),
    ("{{ 10 ** 10 }}", "large values"),
    ("{% for i in range(10**9) %}{% endfor %}", "large values"),
    ("{% for i in range(999999999) %}{% endfor %}", "loops over more"),
    ("{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}"
     "{% endfor %}", "loops over more"),
    ("{% include '/etc/passwd' %}", "no loader"),
    ("{{ 1 / 0 }}", "division"),
    ("{{ 1 + 'a' }}", "unsupported operand"),
    ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "recursion"),
  ],
)  # fmt: skip
def test_errors_and_attacks(smollm2, template, match):
  with pytest.raises(
    TextError, match=f"the chat template failed.*({match})"
  ) as e:
    with_template(smollm2, template).render_chat(USER)
  assert "\n" not in str(e.value)


@pytest.mark.parametrize(
  "messages,match",
  [
    ([], "at least one"),
    ([{"content": "hi"}], "must be"),
    ([{"role": "user"}], "no content"),
  ],
)
def test_malformed_messages(smollm2, messages, match):
  with pytest.raises(TextError, match=match):
    smollm2.render_chat(messages)


def test_messages_are_not_changed(smollm2):
  before = [dict(message) for message in USER]
  smollm2.render_chat(USER)
  assert before == USER


def test_no_template(sentencepiece):
  with pytest.raises(TextError, match="no chat template; give it a plain"):
    sentencepiece.render_chat(USER)
