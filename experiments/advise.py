"""What to draft with, how far, and above which batch not at all, and why.

python -m experiments.advise --objective=latency --concurrency=4
python -m experiments.advise --objective=throughput --device=tpu-v5e --chips=4 \
  --candidates=qwen3-0.6b,ngram,head --acceptance=qwen3-0.6b:0.8,ngram:0.3
python -m experiments.advise --objective=latency --acceptance_from=FOLDER \
  --device=h100 --context=300
python -m experiments.advise --objective=latency --records=FOLDER

From the roofline, or from the records of experiments.benchmark. What is not
known is said.
"""

from absl import flags

from experiments import command, config_file, roofline_flags
from experiments import flags as shared

FLAGS = flags.FLAGS

roofline_flags.define()
flags.adopt_module_key_flags(roofline_flags)
flags.adopt_module_key_flags(command)

_CONFIG = config_file.define("Settings, by default configs/roofline.py.")
_OBJECTIVE = flags.DEFINE_enum(
  "objective",
  None,
  ["latency", "throughput"],
  "A user's speed, or a device's tokens a second.",
)
_CANDIDATES = flags.DEFINE_list(
  "candidates",
  None,
  "Drafters at hand, in place of the config's, or of those of the run of"
  " --acceptance_from.",
)
_COPIES = flags.DEFINE_boolean(
  "copies", False, "Answers quote what they were given: edits, retrieval."
)
_RECORDS = flags.DEFINE_string(
  "records", None, "Folder of experiments.benchmark, in place of the roofline."
)
_JSON = flags.DEFINE_boolean(
  "json", False, "One JSON object on stdout.", **shared.ALSO_ELSEWHERE
)


def main() -> int:
  """The exit status."""
  if _CONFIG.value is None:
    raise ValueError("give --config=FILE.py")
  if _OBJECTIVE.value is None:
    raise ValueError("give --objective=latency or --objective=throughput")
  if _RECORDS.value is not None:
    if given := roofline_flags.given():
      raise ValueError(f"--records takes no --{given[0]}: it was measured")
    with command.interrupts_held():
      from experiments import advise_runs
    return advise_runs.by_records(
      _RECORDS.value, _OBJECTIVE.value, as_json=_JSON.value
    )
  settings = roofline_flags.overlay(_CONFIG.value.to_dict())
  if FLAGS.gamma is not None:
    raise ValueError("this command finds gamma itself")
  if FLAGS.mode is not None:
    raise ValueError("this command looks at all modes of a run: no --mode")
  if _CANDIDATES.value is not None:
    settings["candidates"] = tuple(_CANDIDATES.value)
  elif settings["acceptance_from"] is not None:
    settings["candidates"] = None  # the run's own
  with command.interrupts_held():
    from experiments import advise_runs  # it starts jax

  return advise_runs.by_roofline(
    settings,
    _OBJECTIVE.value,
    FLAGS.concurrency,
    FLAGS.acceptance,
    copies=_COPIES.value,
    as_json=_JSON.value,
  )


if __name__ == "__main__":
  config_file.run(main, roofline_flags.DEFAULT)
