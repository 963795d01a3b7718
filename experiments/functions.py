"""Functions of Python's standard library as a task to fine-tune a target on.

python -m experiments.functions --output=FUNCTIONS.jsonl --asked=ASKED.jsonl

A query is the first paragraph of a function's docstring, its answer the rest of
the function. FUNCTIONS are conversations for --texts of experiments.finetune;
ASKED are other queries, for --prompt_file of experiments.conversations: one in
four, up to --queries. Nothing is fetched: the files are those of the Python
that runs. See docs/training.md.
"""

import ast
import json
import random
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from absl import flags

from experiments import command
from experiments import flags as shared

shared.define_model()
flags.adopt_module_key_flags(shared)
flags.adopt_module_key_flags(command)

_OUTPUT = flags.DEFINE_string(
  "output", None, "Conversations to write, JSONL.", **shared.ALSO_ELSEWHERE
)
_ASKED = flags.DEFINE_string("asked", None, "Queries to write, JSONL.")
_QUERIES = flags.DEFINE_integer("queries", 480, "Queries kept from training.")
_LONGEST = flags.DEFINE_integer("longest", 256, "Tokens of a conversation.")
_LEFT_OUT = ("test", "tests", "site-packages", "idle_test")
_SHORTEST_ANSWER = 40  # tokens: what is shorter is mostly a call of another


def pairs(folder: Path) -> Iterator[tuple[str, str]]:
  """(what a function does, its source without that) of a folder of modules.

  Files in the order of their names; a description once.
  """
  seen = set()
  for path in sorted(folder.rglob("*.py")):
    if set(path.parts) & set(_LEFT_OUT):
      continue
    try:
      text = path.read_text("utf-8")
      tree = ast.parse(text)
    except (SyntaxError, ValueError):
      continue  # made to be refused, or of another encoding
    lines = text.splitlines()
    nodes = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    for node in sorted(nodes, key=lambda node: node.lineno):
      found = _pair(node, lines)
      if found is not None and found[0] not in seen:
        seen.add(found[0])
        yield found


def _pair(node: ast.FunctionDef, lines: list[str]) -> tuple[str, str] | None:
  told = ast.get_docstring(node)
  if not told or len(node.body) < 2:
    return None
  told = " ".join(told.split("\n\n")[0].split())
  if not 20 <= len(told) <= 200:
    return None
  head = lines[node.lineno - 1 : node.body[0].lineno - 1]
  body = lines[node.body[1].lineno - 1 : node.end_lineno]
  code = [line[node.col_offset :] for line in head + body]
  return told, "\n".join(code).rstrip()


def _conversation(tokenizer, name: str, told: str, code: str):
  """None where it is too long or its answer too short."""
  from specjax.training.data.conversations import Conversation, prompt_id

  asked = [{"role": "user", "content": told}]
  answered = [*asked, {"role": "assistant", "content": code}]
  start = len(tokenizer.encode_chat(asked))
  ids = tokenizer.encode_chat(answered, add_generation_prompt=False)
  ends = [i for i in range(start, len(ids)) if ids[i] in tokenizer.eos_ids]
  ids = ids[: ends[-1] + 1] if ends else ids  # a template may write on
  if len(ids) - start < _SHORTEST_ANSWER or len(ids) > _LONGEST.value:
    return None
  return Conversation(
    id=name,
    source="trace",
    token_ids=tuple(ids),
    answers=((start, len(ids)),),
    temperature=None,
    prompt_id=prompt_id(told),
  )


def main() -> int:
  """The exit status."""
  if _OUTPUT.value is None or _ASKED.value is None:
    raise ValueError("give --output=FILE.jsonl and --asked=FILE.jsonl")
  with command.interrupts_held():
    from experiments import setup
    from specjax import checkpoints
    from specjax.training.data.conversations import header
  source = checkpoints.resolve(flags.FLAGS.model)
  tokenizer = setup.load_target(source, flags.FLAGS.dtype).tokenizer
  if tokenizer is None or tokenizer.chat_template is None:
    raise ValueError(f"{source.name} has no chat template to ask with")
  found = list(pairs(Path(sysconfig.get_path("stdlib"))))
  random.Random(0).shuffle(found)
  asked, learnt = [], [header({"source": "functions"})]
  for number, (told, code) in enumerate(found):
    if number % 4 == 3 and len(asked) < _QUERIES.value:
      asked.append({"prompt": told})
    elif (
      text := _conversation(tokenizer, str(number), told, code)
    ) is not None:
      learnt.append(text.to_json())
  for path, entries in ((_OUTPUT.value, learnt), (_ASKED.value, asked)):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(entry) + "\n" for entry in entries)
    Path(path).write_text(lines, encoding="utf-8")
  print(f"{len(learnt) - 1} functions in {_OUTPUT.value}")
  print(f"{len(asked)} queries in {_ASKED.value}")
  return 0


if __name__ == "__main__":
  command.run(main)
