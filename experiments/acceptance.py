"""What a drafter is worth: alpha, acceptance by position, costs, best length.

python -m experiments.acceptance --drafter=ngram [--prompt_file=F.jsonl] \
  [--temperatures=0,0.5,1] [--gammas=1..8] [--output=FOLDER] [--json]
python -m experiments.acceptance --sweep

--sweep compares predicted with measured time at every draft length instead, for
prompt lookup and for acceptance at chosen rates.
"""

import os

from absl import flags

from experiments import command, config_file
from experiments import flags as shared
from specjax.evaluation import questions

DEFAULT = os.path.join(
  os.path.dirname(__file__), "..", "configs", "acceptance.py"
)
FLAGS = flags.FLAGS

shared.define_model()
shared.define_drafting()
shared.define_sampling()
flags.adopt_module_key_flags(shared)
flags.adopt_module_key_flags(command)

_CONFIG = config_file.define("Sizes, by default configs/acceptance.py.")

_PROMPT = flags.DEFINE_multi_string(
  "prompt", [], "A prompt; repeatable.", **shared.ALSO_ELSEWHERE
)
_FILE = flags.DEFINE_string(
  "prompt_file",
  None,
  "In place of the config's: JSONL of {\"prompt\": TEXT}, or Spec-Bench's"
  " question.jsonl, of which the first turn is taken.",
  **shared.ALSO_ELSEWHERE,
)
_CHAT = flags.DEFINE_boolean(
  "chat",
  None,
  "Use the model's chat template; by default where it has one.",
  **shared.ALSO_ELSEWHERE,
)
_TEMPERATURES = flags.DEFINE_list(
  "temperatures", None, "In place of the config's; 0 is greedy."
)
_GAMMAS = flags.DEFINE_string(
  "gammas", None, "Draft lengths, in place of the config's: 1..8, or 1,2,4."
)
_SWEEP = flags.DEFINE_boolean(
  "sweep", False, "Compare predicted with measured time at every draft length."
)
_OUTPUT = flags.DEFINE_string(
  "output",
  None,
  "Folder for the figures as JSON and PNG, made where it is missing.",
  **shared.ALSO_ELSEWHERE,
)
_JSON = flags.DEFINE_boolean(
  "json", False, "One JSON object on stdout.", **shared.ALSO_ELSEWHERE
)


def main() -> int:
  """The exit status."""
  if _CONFIG.value is None:
    raise ValueError("give --config=FILE.py")
  config = _CONFIG.value.to_dict()
  if FLAGS["temperature"].present:
    raise ValueError("this command takes --temperatures=0,0.5,1")
  if FLAGS["num_speculative_tokens"].present:
    raise ValueError("this command takes draft lengths as --gammas=1..8")
  if FLAGS.stop:
    raise ValueError("this command takes no stop strings")
  path = _FILE.value
  if path is None and not _PROMPT.value:
    path = config["prompt_file"]
  if FLAGS["max_new_tokens"].present:
    config["max_new_tokens"] = FLAGS.max_new_tokens
  if _TEMPERATURES.value is not None:
    config["temperatures"] = [_number(text) for text in _TEMPERATURES.value]
  config["gammas"] = parse_lengths(_GAMMAS.value or config["gammas"])
  asked = questions.read(_PROMPT.value, path)
  with command.interrupts_held():
    from experiments import acceptance_runs  # it starts jax

  call = acceptance_runs.sweep if _SWEEP.value else acceptance_runs.study
  return call(asked, _CHAT.value, config, _OUTPUT.value, as_json=_JSON.value)


def parse_lengths(text: str) -> tuple[int, ...]:
  """Draft lengths of "1..8" or "1,2,4", ascending.

  Raises:
    ValueError: neither, or a length below 1.
  """
  try:
    if ".." in text:
      first, last = (int(part) for part in text.split(".."))
      found = tuple(range(first, last + 1))
    else:
      found = tuple(sorted({int(part) for part in text.split(",")}))
  except ValueError:
    found = ()
  if not found or found[0] < 1:
    raise ValueError(f"gammas must be like 1..8 or 1,2,4, got {text!r}")
  return found


def _number(text: str) -> float:
  try:
    return float(text)
  except ValueError as error:
    raise ValueError(f"temperatures must be numbers, got {text!r}") from error


if __name__ == "__main__":
  config_file.run(main, DEFAULT)
