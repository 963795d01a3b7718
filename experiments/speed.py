"""Measures what a round costs against its width, its batch and the memory.

python -m experiments.speed [--config=configs/speed.py] [--json]
"""

import json
import os

from absl import flags
from ml_collections import config_flags

from experiments import command

_CONFIG = config_flags.DEFINE_config_file(
  "config",
  os.path.join(os.path.dirname(__file__), "..", "configs", "speed.py"),
  "Sizes of the run.",
  lock_config=True,
)
_JSON = flags.DEFINE_boolean("json", False, "One JSON object on stdout.")


def main() -> None:
  """Prints minima of interleaved runs, and their ratios."""
  settings = _CONFIG.value.to_dict()
  with command.interrupts_held():
    from rich.console import Console
    from rich.table import Table

    from specjax.checkpoints.loaded import load_model
    from specjax.evaluation import speed

  target = load_model(settings.pop("model"))
  if target.tokenizer is None:
    raise ValueError(f"{target.name} has no tokenizer to read the prompt with")
  chat = [{"role": "user", "content": settings.pop("prompt")}]
  plan = speed.Plan(tuple(target.tokenizer.encode_chat(chat)), **settings)
  result = speed.measure(target.model, target.params, plan)
  if _JSON.value:
    print(json.dumps(result))
    return
  times = Table("case", "min ms", "median ms", title="one round, or one read")
  for name, values in result["seconds"].items():
    middle = sorted(values)[len(values) // 2]
    times.add_row(name, f"{1e3 * min(values):.2f}", f"{1e3 * middle:.2f}")
  figures = Table("figure", "value", title="from minima")
  for name, value in result["figures"].items():
    figures.add_row(name, f"{value:.3g}")
  Console().print(times, figures)


if __name__ == "__main__":
  command.run(main)
