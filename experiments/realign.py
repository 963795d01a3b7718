"""The published toy run of a stale draft, by every loss, over several seeds.

python -m experiments.realign --worlds=8
python -m experiments.realign --json --output=FOLDER

See docs/training_losses.md for what is trained and what came out.
"""

import json
import sys

from absl import flags

from experiments import command
from experiments import flags as shared

_WORLDS = flags.DEFINE_integer(
  "worlds", 8, "Worlds drawn, 0 to N - 1; intervals need two."
)
_OUTPUT = flags.DEFINE_string(
  "output",
  None,
  "Folder for realign.json and realign.png, made where missing.",
  **shared.ALSO_ELSEWHERE,
)
_JSON = flags.DEFINE_boolean(
  "json", False, "One JSON object on stdout.", **shared.ALSO_ELSEWHERE
)


def main() -> int:
  """The exit status."""
  with command.interrupts_held():
    from experiments import realign_show
    from experiments.output import make_folder
    from specjax.training import toy_realignment as toy
  if _WORLDS.value < 1:
    raise ValueError(f"--worlds must be at least 1, got {_WORLDS.value}")
  folder = make_folder(_OUTPUT.value, "realign.json")
  found = toy.compare(
    range(_WORLDS.value),
    toy.Toy(),
    say=lambda line: print(line, file=sys.stderr, flush=True),
  )
  record = toy.to_json(found, toy.Toy())
  if folder is not None:
    path = folder / "realign.json"
    path.write_text(json.dumps(record, indent=1))
    (folder / "realign.png").write_bytes(realign_show.png(record))
    print(f"wrote {path}", file=sys.stderr)
  if _JSON.value:
    print(json.dumps(record))
  else:
    realign_show.table(record)
  return 0


if __name__ == "__main__":
  command.run(main)
