"""Trains a drafter for a target: data, labels, training, evaluation, files.

python -m experiments.train --config=configs/train/NAME.py \
  [--config.FIELD=VALUE ...] [--config.smoke=True] [--output=FOLDER] [--json]

Fields of a config are those of experiments.train_settings.Settings. The same
command again goes on with a run that was stopped; what is finished is not done
again. See docs/training.md.
"""

import os
from typing import Any

from absl import flags

from experiments import command, config_file
from experiments import flags as shared

DEFAULT = os.path.join(
  os.path.dirname(__file__), "..", "configs", "train", "draft_model.py"
)

shared.define_model()
flags.adopt_module_key_flags(shared)
flags.adopt_module_key_flags(command)

_CONFIG = config_file.define(
  "The recipe, by default configs/train/draft_model.py."
)
_OUTPUT = flags.DEFINE_string(
  "output",
  None,
  "Folder to write to; by default results/train/ and the config's name, with"
  " _smoke where that is asked for.",
  **shared.ALSO_ELSEWHERE,
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
  with command.interrupts_held():
    from experiments import train_run  # it starts jax
    from experiments.train_settings import Settings

  settings = Settings.of(_CONFIG.value.to_dict(), _given())
  name = config_file.name() + ("_smoke" if settings.smoke else "")
  output = _OUTPUT.value or os.path.join("results", "train", name)
  return train_run.run(settings, output, as_json=_JSON.value)


def _given() -> dict[str, Any]:
  """The config's fields that flags stand in place of."""
  names = ("model", "dtype")
  return {n: flags.FLAGS[n].value for n in names if flags.FLAGS[n].present}


if __name__ == "__main__":
  config_file.run(main, DEFAULT)
