"""Fine-tunes a target on a text, so that its drafters go stale.

python -m experiments.finetune --corpus=FILE.txt --output=FOLDER \
  [--last_layers=N] [--learning_rate=R] [--steps=N] [--seed=S] [--json]
python -m experiments.finetune --texts=CONVERSATIONS.jsonl --output=FOLDER

FOLDER/model loads by path like any model, tokenizer included. The same command
again goes on with a run that was stopped. See docs/training.md.
"""

from absl import flags

from experiments import command
from experiments import flags as shared

shared.define_model()
flags.adopt_module_key_flags(shared)
flags.adopt_module_key_flags(command)

_CORPUS = flags.DEFINE_string(
  "corpus", None, "A UTF-8 text to learn, cut into windows of --window tokens."
)
_TEXTS = flags.DEFINE_string(
  "texts",
  None,
  "In its place conversations, JSONL or .npz, whose answers are learnt.",
)
_LAST_LAYERS = flags.DEFINE_integer(
  "last_layers",
  None,
  "Train the last N layers and the final norm alone; by default everything.",
)
_RATE = flags.DEFINE_float("learning_rate", 2e-4, "The largest one.")
_WARMUP = flags.DEFINE_integer("warmup_steps", 10, "Of its rise from 0.")
_STEPS = flags.DEFINE_integer("steps", 200, "Updates at most.")
_EVALUATE = flags.DEFINE_integer(
  "evaluate_every", 50, "Steps between two looks at what is held out."
)
_BATCH = flags.DEFINE_integer("batch_size", 8, "Texts an update.")
_PARTS = flags.DEFINE_integer(
  "micro_batches", 1, "Parts of a batch, one after another: less memory."
)
_WINDOW = flags.DEFINE_integer("window", 256, "Tokens of a text.")
_HELD_OUT = flags.DEFINE_float(
  "held_out", 0.05, "Share of the texts that is kept from training."
)
_WINDOWS = flags.DEFINE_integer(
  "windows", 64, "Texts at most that are looked at of what is held out."
)
_SEED = flags.DEFINE_integer(
  "seed", 0, "Of the order of the texts.", **shared.ALSO_ELSEWHERE
)
_OUTPUT = flags.DEFINE_string(
  "output", None, "Folder to write to.", **shared.ALSO_ELSEWHERE
)
_JSON = flags.DEFINE_boolean(
  "json",
  False,
  "The summary as one JSON object on stdout and nothing else.",
  **shared.ALSO_ELSEWHERE,
)


def main() -> int:
  """The exit status."""
  if _OUTPUT.value is None:
    raise ValueError("give --output=FOLDER for the fine-tuned model")
  with command.interrupts_held():
    from experiments import finetune_run  # it starts jax
  settings = finetune_run.Settings(
    model=flags.FLAGS.model,
    dtype=flags.FLAGS.dtype,
    corpus=_CORPUS.value,
    texts=_TEXTS.value,
    last_layers=_LAST_LAYERS.value,
    learning_rate=_RATE.value,
    warmup_steps=_WARMUP.value,
    steps=_STEPS.value,
    evaluate_every=_EVALUATE.value,
    batch=_BATCH.value,
    micro_batches=_PARTS.value,
    length=_WINDOW.value,
    held_out=_HELD_OUT.value,
    windows=_WINDOWS.value,
    seed=_SEED.value,
  )
  return finetune_run.run(settings, _OUTPUT.value, as_json=_JSON.value)


if __name__ == "__main__":
  command.run(main)
