"""Prompts: open user turns of several templates, and files of many forms."""

import json

import pytest

from specjax.training.data import Conversation, read_prompts, stored_prompts
from specjax.training.data.prompts import open_turn
from tests.byte_tokenizer import byte_tokenizer

CHATML = (
  "{% for m in messages %}{% if loop.first and m.role != 'system' %}"
  "[system]be kind</s>{% endif %}[{{ m.role }}]{{ m.content }}</s>"
  "{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"
)
BRACKETS = "{% for m in messages %}[INST] {{ m.content }} [/INST]{% endfor %}"
PLAIN = "{% for m in messages %}User: {{ m.content }}\n{% endfor %}Answer:"


@pytest.mark.parametrize(
  "template, before, stop",
  [
    (CHATML, "[system]be kind</s>[user]", ()),
    (BRACKETS, "[INST]", ("[/INST]",)),
    (PLAIN, "User:", ("Answer:",)),
  ],
)
def test_a_template_is_cut_before_the_users_message(template, before, stop):
  tokenizer = byte_tokenizer(template)
  turn = open_turn(tokenizer)
  assert list(turn.token_ids) == tokenizer.encode(before)
  assert turn.stop == stop


@pytest.mark.parametrize(
  "template, reason",
  [
    ("{% for m in messages %}{{ m.content.upper() }}{% endfor %}", "as it is"),
    ("{{ messages[0].content }}{{ messages[0].content }}", "as it is"),
    ("{{ messages[0].content }}", "nothing before"),
    (None, "no chat template"),
  ],
)
def test_a_template_that_cannot_be_left_open_is_refused(template, reason):
  with pytest.raises(ValueError, match=reason):
    open_turn(byte_tokenizer(template))


def _file(folder, *entries):
  path = folder / "prompts.jsonl"
  path.write_text("".join(json.dumps(e) + "\n" for e in entries))
  return str(path)


DIALOGUE = [
  {"from": "human", "value": "One?"},
  {"from": "gpt", "value": "1"},
  {"from": "human", "value": "Two?"},
]


def test_files_of_many_forms_give_rendered_prompts(tmp_path):
  tokenizer = byte_tokenizer(CHATML)

  def read(*entries, turns=1):
    prompts = read_prompts(_file(tmp_path, *entries), tokenizer, turns)
    texts = [tokenizer.decode(p.token_ids) for p in prompts]
    return texts, [p.prompt_id for p in prompts]

  one = "[system]be kind[user]One?[assistant]"
  first, ids = read(
    {"prompt": "One?"}, {"question_id": 1, "turns": ["Two?", "3"]}
  )
  assert first == [one, one.replace("One", "Two")]
  assert read({"conversations": DIALOGUE}) == ([one], ids[:1])
  messages = [{"role": "user", "content": "One?"}]
  assert read({"messages": messages}) == ([one], ids[:1])
  both, same = read({"conversations": DIALOGUE}, turns=2)
  two = "[system]be kind[user]One?[assistant]1[user]Two?[assistant]"
  assert both == [one, two]
  assert same == [ids[0]] * 2  # a dialogue lies on one side


@pytest.mark.parametrize(
  "entry, reason",
  [
    ({"conversations": [{"from": "human"}]}, "line 2: needs"),
    ({"conversations": 3}, "line 2: needs"),
    ({"messages": [{"role": "assistant", "content": "x"}]}, "no user speaks"),
    ({"messages": [{"role": "user", "content": " "}]}, "a message is empty"),
    ({"prompt": "x"}, "line 2: needs"),
  ],
)
def test_a_line_of_another_form_is_refused_by_number(tmp_path, entry, reason):
  path = _file(tmp_path, {"conversations": DIALOGUE}, entry)
  with pytest.raises(ValueError, match=reason):
    read_prompts(path, byte_tokenizer(CHATML))


def test_stored_texts_are_prompts_up_to_their_first_answers():
  kept = Conversation("1", "prompt", (5, 6, 7, 8), ((2, 3), (3, 4)), 1.0, "p")
  whole = Conversation("2", "corpus", (5, 6), ((0, 2),), None, "q")
  (prompt,) = stored_prompts([kept, whole])
  assert (prompt.token_ids, prompt.prompt_id) == ((5, 6), "p")
