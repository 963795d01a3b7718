"""Joins two runs and compares them mode by mode, with intervals over prompts.

python -m experiments.compare_records A B [--tag=route] [--threshold=0.02]
  [--fail_on_fall] [--json]

A and B are folders of `experiments.benchmark`, or their records.jsonl. Speedups
are each over plain decoding of the same run, for clocks of two runs do not
compare.
"""

import json
from pathlib import Path

from absl import flags

from experiments import command
from experiments import flags as shared

FELL = 3  # exit status

_TAG = flags.DEFINE_string(
  "tag", "route", "Field of the environment by whose values runs are compared."
)
_THRESHOLD = flags.DEFINE_float(
  "threshold", 0.0, "Least fall of the acceptance rate to flag.", 0.0, 1.0
)
_FAIL = flags.DEFINE_boolean(
  "fail_on_fall", False, f"Exit with {FELL} where acceptance fell."
)
_JSON = flags.DEFINE_boolean(
  "json", False, "One JSON object on stdout.", **shared.ALSO_ELSEWHERE
)


def main(a: str, b: str) -> int:
  """Prints what changed from A to B, and flags a fall of acceptance."""
  with command.interrupts_held():
    from rich.console import Console

    from experiments import compare_show
    from specjax.evaluation import records
    from specjax.evaluation.figures import run_comparison
    from specjax.evaluation.runs import run_folder
  found = run_comparison.compare(
    records.read(Path(a)),
    records.read(Path(b)),
    tag=_TAG.value,
    threshold=_THRESHOLD.value,
  )
  found["settings_differ"] = run_folder.differences(Path(a), Path(b))
  if _JSON.value:
    print(json.dumps({"a": a, "b": b, **found}))
  else:
    Console(highlight=False).print(*compare_show.tables(found, a, b), sep="\n")
  return FELL if _FAIL.value and found["fell"] else 0


if __name__ == "__main__":
  command.run(main, positional=("A", "B"))
