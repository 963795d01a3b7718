"""Conversations of a model's own, for trainings to learn from.

python -m experiments.conversations --output=FILE.jsonl [--count=N] \
  [--temperatures=1,0] [--pack=FILE.npz] [--json]
python -m experiments.conversations --output=FILE.jsonl --prompt_file=PROMPTS

The model writes the queries itself, or is given them, and answers. The same
command again goes on with a file that was stopped, and a larger --count appends
to it. See docs/training_data.md.
"""

import json
from pathlib import Path
from typing import Any

from absl import flags

from experiments import command
from experiments import flags as shared

shared.define_model()
flags.adopt_module_key_flags(shared)
flags.adopt_module_key_flags(command)

_OUTPUT = flags.DEFINE_string(
  "output", None, "File to write, JSONL.", **shared.ALSO_ELSEWHERE
)
_PACK = flags.DEFINE_string(
  "pack", None, "Also all of them in one small file, .npz."
)
_PROMPTS = flags.DEFINE_string(
  "prompt_file",
  None,
  "JSONL of prompts to answer; without it the model writes its own.",
  **shared.ALSO_ELSEWHERE,
)
_COUNT = flags.DEFINE_integer(
  "count", 1000, "Queries tried; those that are dropped count."
)
_TEMPERATURES = flags.DEFINE_list(
  "temperatures",
  None,
  "Of the answers, taken in turns; by default 1.",
  **shared.ALSO_ELSEWHERE,
)
_QUERY_TEMPERATURE = flags.DEFINE_float(
  "query_temperature", 1.0, "Of queries that the model writes itself."
)
_ANSWER_TOKENS = flags.DEFINE_integer("max_answer_tokens", 256, "Of an answer.")
_QUERY_TOKENS = flags.DEFINE_integer(
  "max_query_tokens", 128, "A query that has not ended by then is dropped."
)
_CUT_QUERIES = flags.DEFINE_boolean(
  "cut_queries", False, "Ask a query that has not ended as far as it is."
)
_PROMPT_TOKENS = flags.DEFINE_integer(
  "max_prompt_tokens", 256, "Longer prompts are dropped."
)
_AT_A_TIME = flags.DEFINE_integer(
  "at_a_time", 32, "Answers side by side; changes none of them."
)
_SEED = flags.DEFINE_integer(
  "seed", 0, "Of every draw.", **shared.ALSO_ELSEWHERE
)
_JSON = flags.DEFINE_boolean(
  "json",
  False,
  "What was made as one JSON object on stdout.",
  **shared.ALSO_ELSEWHERE,
)


def main() -> int:
  """The exit status."""
  if _OUTPUT.value is None:
    raise ValueError("give --output=FILE.jsonl for the conversations")
  path, prompt_file = Path(_OUTPUT.value), _PROMPTS.value
  if prompt_file is not None and not Path(prompt_file).is_file():
    raise ValueError(f"there is no file {prompt_file}")
  for flag in ("query_temperature", "max_query_tokens", "cut_queries"):
    if prompt_file is not None and flags.FLAGS[flag].present:
      raise ValueError(f"--{flag} is of queries that no file gives")
  given = _TEMPERATURES.value or ["1"]
  try:
    temperatures = tuple(float(t) for t in given)
  except ValueError:
    raise ValueError(
      f"--temperatures must be numbers, got {','.join(given)}"
    ) from None
  return _make(path, prompt_file, temperatures)


def _make(
  path: Path, prompt_file: str | None, temperatures: tuple[float, ...]
) -> int:
  with command.interrupts_held():
    from experiments import setup
    from specjax import checkpoints
    from specjax.training import data
  making = data.Making(
    count=_COUNT.value,
    seed=_SEED.value,
    temperatures=temperatures,
    max_new_tokens=_ANSWER_TOKENS.value,
    max_prompt_tokens=_PROMPT_TOKENS.value,
    query_temperature=_QUERY_TEMPERATURE.value,
    max_query_tokens=_QUERY_TOKENS.value,
    cut_queries=_CUT_QUERIES.value,
    batch=_AT_A_TIME.value,
  )
  source = checkpoints.resolve(flags.FLAGS.model)
  target = setup.load_target(source, flags.FLAGS.dtype)
  path.parent.mkdir(parents=True, exist_ok=True)
  try:
    if prompt_file is None:
      made = data.make_synthetic(target, path, making, say=setup.report)
    else:
      if target.tokenizer is None:
        raise ValueError(f"{target.name} has no tokenizer to read prompts with")
      prompts = data.read_prompts(prompt_file, target.tokenizer)
      made = data.answer_prompts(
        target, path, prompts, making, say=setup.report
      )
  except KeyboardInterrupt:
    setup.report("interrupted; run the same command to go on")
    return command.INTERRUPTED
  texts = data.read_conversations(path)
  if _PACK.value is not None:
    size = data.pack(texts, Path(_PACK.value))
    setup.report(f"packed into {_PACK.value}: {size:,} bytes")
  _tell(
    {
      "conversations": len(texts),
      "answer_tokens": sum(b - a for text in texts for a, b in text.answers),
      "dropped": dict(made.dropped),
      "new_tokens": made.tokens,
      "tokens_per_s": made.rate if made.tokens else None,
    },
    path,
  )
  return 0


def _tell(found: dict[str, Any], path: Path) -> None:
  if _JSON.value:
    print(json.dumps(found))
    return
  print(
    f"{found['conversations']:,} conversations with"
    f" {found['answer_tokens']:,} answer tokens in {path}"
  )


if __name__ == "__main__":
  command.run(main)
