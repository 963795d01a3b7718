"""Trains a recipe in several ways over several seeds, and compares them.

python -m experiments.ablate --config=configs/ablate/NAME.py \
  [--config.FIELD=VALUE ...] [--arms=A,B] [--output=FOLDER] [--json]

Each arm and seed is a run of experiments.train in a folder of its own. The same
command again goes on with what was stopped; what is finished is not done again.
See docs/training.md.
"""

import os

from absl import flags

from experiments import command, config_file
from experiments import flags as shared

DEFAULT = os.path.join(
  os.path.dirname(__file__), "..", "configs", "ablate", "realign.py"
)

shared.define_compilation_cache()
flags.adopt_module_key_flags(shared)
flags.adopt_module_key_flags(command)

_CONFIG = config_file.define(
  "The arms and seeds, by default configs/ablate/realign.py."
)
_ARMS = flags.DEFINE_list(
  "arms",
  None,
  "Names of those to train now; by default all. The table has all that are"
  " finished.",
)
_OUTPUT = flags.DEFINE_string(
  "output",
  None,
  "Folder to write to; by default results/ablate/ and the config's name, with"
  " _smoke where that is asked for.",
  **shared.ALSO_ELSEWHERE,
)
_JSON = flags.DEFINE_boolean(
  "json",
  False,
  "The comparison as one JSON object on stdout and nothing else.",
  **shared.ALSO_ELSEWHERE,
)


def main() -> int:
  """The exit status."""
  if _CONFIG.value is None:
    raise ValueError("give --config=FILE.py")
  with command.interrupts_held():
    from experiments import ablate_run  # it starts jax
    from experiments.ablate_settings import Study

  config = _CONFIG.value.to_dict()
  name = config_file.name() + ("_smoke" if config.get("smoke") else "")
  output = _OUTPUT.value or os.path.join("results", "ablate", name)
  study = Study.of(config, os.path.join(output, "labels"), _ARMS.value)
  return ablate_run.run(study, output, as_json=_JSON.value)


if __name__ == "__main__":
  config_file.run(main, DEFAULT)
