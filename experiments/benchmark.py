"""Compares drafters with plain decoding in one run, and reports.

python -m experiments.benchmark [--config=configs/benchmark.py] \
  [--config.FIELD=VALUE ...] [--output=FOLDER]

Fields of a config are those of experiments.benchmark_settings.Settings. The
same command again goes on with a run that was stopped.
"""

import os
from typing import Any

from absl import flags

from experiments import command, config_file
from experiments import flags as shared
from experiments.benchmark_settings import Settings
from specjax.evaluation import questions
from specjax.evaluation.runs import choice

DEFAULT = os.path.join(
  os.path.dirname(__file__), "..", "configs", "benchmark.py"
)

shared.define_model()
flags.adopt_module_key_flags(shared)
flags.adopt_module_key_flags(command)

_CONFIG = config_file.define(
  "What is compared, by default configs/benchmark.py."
)
_DRAFT_MODEL = flags.DEFINE_string(
  "draft_model",
  None,
  "In place of the config's: a model that drafts.",
  **shared.ALSO_ELSEWHERE,
)
_DRAFT_LAYERS = flags.DEFINE_integer(
  "draft_layers",
  None,
  "In place of the config's: draft with the target's first N layers.",
  **shared.ALSO_ELSEWHERE,
)
_PROMPTS = flags.DEFINE_string(
  "prompt_file",
  None,
  "In place of the config's: JSONL in Spec-Bench's format.",
  **shared.ALSO_ELSEWHERE,
)
_ROUTE = flags.DEFINE_string(
  "route", None, "A free tag of the records, by which runs are compared."
)
_OUTPUT = flags.DEFINE_string(
  "output",
  None,
  "Folder to write to; by default results/ and the config's name.",
  **shared.ALSO_ELSEWHERE,
)
_OVERWRITE = flags.DEFINE_boolean(
  "overwrite", False, "Remove another run's files in the folder first."
)
_TRACES = flags.DEFINE_integer(
  "traces", 2, "Answers of each mode whose rounds the report shows."
)
_REPORT_ONLY = flags.DEFINE_boolean(
  "report_only", False, "Measure nothing: write all again from the records."
)
_JSON = flags.DEFINE_boolean(
  "json",
  False,
  "The summary as one JSON object on stdout and nothing else.",
  **shared.ALSO_ELSEWHERE,
)


def main() -> int:
  """The exit status."""
  if _CONFIG.value is None:
    raise ValueError("give --config=FILE.py")
  output = _OUTPUT.value or os.path.join("results", config_file.name())
  if _REPORT_ONLY.value:
    with command.interrupts_held():
      from experiments import benchmark_show

    return benchmark_show.report(output, as_json=_JSON.value)
  settings = Settings.of(_CONFIG.value.to_dict(), _given())
  if _TRACES.value < 0:
    raise ValueError(f"traces must be 0 or more, got {_TRACES.value}")
  asked = choice.choose(
    questions.read([], settings.prompt_file),
    categories=settings.categories,
    first=settings.first_question,
    last=settings.last_question,
    per_category=settings.per_category,
  )
  with command.interrupts_held():
    from experiments import benchmark_run  # it starts jax

  return benchmark_run.run(
    settings,
    asked,
    output,
    overwrite=_OVERWRITE.value,
    traces=_TRACES.value,
    as_json=_JSON.value,
  )


def _given() -> dict[str, Any]:
  """The config's fields that flags stand in place of."""
  names = ("model", "dtype")
  present = {n: flags.FLAGS[n].value for n in names if flags.FLAGS[n].present}
  return {
    **present,
    "draft_model": _DRAFT_MODEL.value,
    "draft_layers": _DRAFT_LAYERS.value,
    "prompt_file": _PROMPTS.value,
    "route": _ROUTE.value,
  }


if __name__ == "__main__":
  config_file.run(main, DEFAULT)
