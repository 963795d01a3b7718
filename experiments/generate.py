"""Decodes prompts, streams the text and ends with the figures.

python -m experiments.generate --prompt="Tell me about lighthouses." \
  --drafter=ngram
"""

from absl import flags

from experiments import command
from experiments import flags as shared
from specjax.evaluation import questions

shared.define_model()
shared.define_drafting()
shared.define_sampling()
flags.adopt_module_key_flags(shared)
flags.adopt_module_key_flags(command)

_PROMPT = flags.DEFINE_multi_string(
  "prompt", [], "A prompt; repeatable.", **shared.ALSO_ELSEWHERE
)
_FILE = flags.DEFINE_string(
  "prompt_file",
  None,
  'JSONL of {"prompt": TEXT}, or Spec-Bench\'s question.jsonl.',
  **shared.ALSO_ELSEWHERE,
)
_CHAT = flags.DEFINE_boolean(
  "chat",
  None,
  "Use the model's chat template; by default where it has one. --nochat gives"
  " the bare text.",
  **shared.ALSO_ELSEWHERE,
)
_JSON = flags.DEFINE_boolean(
  "json",
  False,
  "One JSON object a result on stdout and nothing else.",
  **shared.ALSO_ELSEWHERE,
)
_LOGPROBS = flags.DEFINE_boolean(
  "logprobs",
  False,
  "Record log-probabilities of the new tokens, before temperature and filters"
  " (with --json).",
)
_BATCH = flags.DEFINE_integer(
  "batch",
  1,
  "Prompts decoded at a time. Times of a row are then those of the dispatches"
  " that it shared.",
)
_COMPARE = flags.DEFINE_boolean(
  "compare",
  None,
  "Measure plain decoding of the same prompts in the same run; by default for a"
  " single prompt without --json.",
)
_TREE = flags.DEFINE_boolean(
  "show_tree",
  False,
  "Draw what each round proposed, with what was kept and why not. Recording it"
  " makes rounds slower.",
)


def main() -> int:
  """The exit status."""
  asked = questions.read(_PROMPT.value, _FILE.value)
  if _BATCH.value < 1:
    raise ValueError(f"batch must be at least 1, got {_BATCH.value}")
  if _TREE.value and _JSON.value:
    raise ValueError("--show_tree draws for people: it does not go with --json")
  with command.interrupts_held():
    from experiments import setup, show  # they start jax

  plan = setup.make_plan()
  compare = _COMPARE.value
  if compare is None:
    single = len(asked) == 1 and len(asked[0].turns) == 1
    compare = single and not _JSON.value
  return show.run(
    plan,
    asked,
    as_json=_JSON.value,
    compare=compare and plan.drafter != "none",
    chat=_CHAT.value,
    logprobs=_LOGPROBS.value,
    max_batch=_BATCH.value,
    show_tree=_TREE.value,
  )


if __name__ == "__main__":
  command.run(main)
