"""Published numbers beside ours: paper by paper, cell by cell.

python -m experiments.reproduce --paper=leviathan2023
python -m experiments.reproduce --paper=all --output=FOLDER

See docs/reproductions.md for what is there and what a verdict means.
"""

import json
import sys

from absl import flags

from experiments import command
from experiments import flags as shared

FLAGS = flags.FLAGS

shared.define_compilation_cache()
_PAPER = flags.DEFINE_string(
  "paper", "all", "A paper's name, or all; an unknown one lists the names."
)
_OUTPUT = flags.DEFINE_string(
  "output",
  None,
  "Folder for cells.json, reproduction.html and a PNG a figure, made where"
  " missing.",
  **shared.ALSO_ELSEWHERE,
)
_JSON = flags.DEFINE_boolean(
  "json", False, "One JSON object on stdout.", **shared.ALSO_ELSEWHERE
)
_QUICK = flags.DEFINE_boolean(
  "quick", False, "Smaller samples; a cell's note says how large."
)
_TEXT = flags.DEFINE_string(
  "text_file",
  None,
  "Text that the trained models learn, in place of Python's documentation.",
)
_SEED = flags.DEFINE_integer(
  "seed", 0, "Of what is sampled or trained here.", **shared.ALSO_ELSEWHERE
)


def main() -> int:
  """The exit status: 0 also where cells differ, for they say why."""
  with command.interrupts_held():
    from experiments import reproduce_show, setup
    from experiments.output import make_folder
    from specjax.evaluation.reproduction import (
      page,
      pictures,
      registry,
      results,
    )
    from specjax.evaluation.reproduction.cells import Settings
  names = registry.names_of(_PAPER.value)
  folder = make_folder(_OUTPUT.value, "cells.json")
  settings = Settings(
    quick=_QUICK.value,
    text_file=_TEXT.value,
    say=lambda line: print(line, file=sys.stderr, flush=True),
    seed=_SEED.value,
  )
  setup.use_compilation_cache(FLAGS.compilation_cache)
  made = []
  for result in results.make(names, settings, figures=folder is not None):
    made.append(result)
    if not _JSON.value:
      reproduce_show.paper(result)
  record = {
    "papers": [result.to_json() for result in made],
    "counts": results.counts(made),
  }
  if folder is not None:
    (folder / "cells.json").write_text(json.dumps(record, indent=1))
    drawn = pictures.draw(made)
    (folder / page.FILE).write_text(page.render(made, drawn), encoding="utf-8")
    pictures.write(drawn, folder)
    print(f"wrote {folder / page.FILE}", file=sys.stderr)
  if _JSON.value:
    print(json.dumps(record))
  else:
    reproduce_show.summary(made)
  return 0


if __name__ == "__main__":
  command.run(main)
