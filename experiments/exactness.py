"""Is a drafter with a rule lossless? Evidence, and a control that must fail.

python -m experiments.exactness --model=table --drafter=model
python -m experiments.exactness --drafter=ngram --top_k=4
python -m experiments.exactness --drafter=ngram --greedy --prompt_file=F.jsonl
"""

from absl import flags

from experiments import command, output
from experiments import flags as shared

FLAGS = flags.FLAGS

shared.define_model()
shared.define_drafting()
shared.define_sampling()
flags.adopt_module_key_flags(shared)
flags.adopt_module_key_flags(command)


_PROMPT = flags.DEFINE_multi_string(
  "prompt",
  [],
  "A prompt; repeatable with --greedy. By default a text with repeats.",
  **shared.ALSO_ELSEWHERE,
)
_FILE = flags.DEFINE_string(
  "prompt_file",
  None,
  'JSONL of {"prompt": TEXT}, or Spec-Bench\'s question.jsonl, of which the'
  " first turn is taken.",
  **shared.ALSO_ELSEWHERE,
)
_CHAT = flags.DEFINE_boolean(
  "chat",
  None,
  "Use the model's chat template for the prompts given; by default where it"
  " has one.",
  **shared.ALSO_ELSEWHERE,
)
_JSON = flags.DEFINE_boolean(
  "json", False, "One JSON object on stdout.", **shared.ALSO_ELSEWHERE
)
_OUTPUT = flags.DEFINE_string(
  "output",
  None,
  "Folder for exactness.json and exactness.png, made where it is missing.",
  **shared.ALSO_ELSEWHERE,
)
_GREEDY = flags.DEFINE_boolean(
  "greedy",
  False,
  "Compare greedy outputs with plain decoding's, token for token, as"
  " --temperature=0 does. Otherwise the temperature is 1 unless it is given.",
)
_LENGTH = flags.DEFINE_integer("length", 4, "Tokens of the joint law.")
_SAMPLES = flags.DEFINE_integer(
  "samples", None, "Of each seed; by default 4096, or 256 of a real model."
)
_SEEDS = flags.DEFINE_integer(
  "seeds", None, "By default 100, or 8 with a real model."
)
_ROWS = flags.DEFINE_integer(
  "rows", None, "At a time; by default 4096, or 64 of a real model."
)


def main() -> int:
  """The exit status: 1 where a rule is not what it says, or nothing is shown.

  --model takes table and tiny too, targets of known law that need no file.
  """
  for flag in (_LENGTH, _SAMPLES, _SEEDS, _ROWS):
    if flag.value is not None and flag.value < 1:
      raise ValueError(f"{flag.name} must be at least 1, got {flag.value}")
  if _GREEDY.value and FLAGS.temperature:
    raise ValueError("--greedy is at odds with --temperature")
  greedy = _GREEDY.value or FLAGS["temperature"].present
  greedy = greedy and not FLAGS.temperature
  if not greedy and not FLAGS["temperature"].present:
    FLAGS.temperature = 1.0
  with command.interrupts_held():
    from experiments import exactness_runs as runs  # it starts jax

  folder = output.make_folder(_OUTPUT.value, "exactness.json")
  if greedy:
    asked = _PROMPT.value, _FILE.value
    return runs.greedy(*asked, _CHAT.value, as_json=_JSON.value, folder=folder)
  if _FILE.value is not None or len(_PROMPT.value) > 1:
    raise ValueError("a law is that of one prompt: give one --prompt")
  sizes = dict(samples=_SAMPLES.value, seeds=_SEEDS.value, rows=_ROWS.value)
  sizes = {name: value for name, value in sizes.items() if value is not None}
  return runs.laws(
    _PROMPT.value[0] if _PROMPT.value else None,
    _CHAT.value,
    length=_LENGTH.value,
    sizes=sizes,
    as_json=_JSON.value,
    folder=folder,
  )


if __name__ == "__main__":
  command.run(main)
