"""Trained drafters to the layouts of other tools, and from them.

python -m experiments.export_drafter --drafter_folder=FOLDER --output=NEW \
  --format=eagle3|eagle|medusa|vllm-medusa|speculators [--model=TARGET]
python -m experiments.export_drafter --from=PUBLISHED --output=NEW \
  --model=TARGET

The second writes a folder that --draft_model takes; it takes PUBLISHED as it is
too. See docs/drafter_files.md.
"""

import os
from typing import Any

from absl import flags

from experiments import command
from experiments import flags as shared

FLAGS = flags.FLAGS
_FORMATS = ("eagle3", "eagle", "medusa", "vllm-medusa", "speculators")
# That only one of the two directions takes.
_OUT = ("format", "target_name", "embeddings")

_FOLDER = flags.DEFINE_string(
  "drafter_folder", None, "Folder of a trained drafter, to be exported."
)
_FROM = flags.DEFINE_string(
  "from", None, "Folder of a published drafter, to be imported."
)
_FORMAT = flags.DEFINE_enum("format", None, _FORMATS, "Layout to export to.")
_OUTPUT = flags.DEFINE_string(
  "output", None, "Folder to write; it must be new.", **shared.ALSO_ELSEWHERE
)
_MODEL = flags.DEFINE_string(
  "model",
  "smollm2-135m",
  "Target of the drafter; an export takes the one that its file names.",
  **shared.ALSO_ELSEWHERE,
)
_STORAGE = flags.DEFINE_enum(
  "storage",
  None,
  ["float32", "bfloat16", "float16"],
  "Weights in the file; by default what they came in, else float32. An import"
  " has no float16.",
)
_TARGET_NAME = flags.DEFINE_string(
  "target_name",
  None,
  "Where a reader of medusa or speculators finds the target; by default the"
  " name that the drafter's file has.",
)
_EMBEDDINGS = flags.DEFINE_boolean(
  "embeddings",
  False,
  "Repeat the target's embeddings in eagle3, for readers that do not take them"
  " from the target; eagle and speculators always have them.",
)


def main() -> int:
  """The exit status."""
  if (_FOLDER.value is None) == (_FROM.value is None):
    raise ValueError("give either --drafter_folder=FOLDER or --from=FOLDER")
  if _OUTPUT.value is None:
    raise ValueError("give --output=FOLDER")
  if os.path.exists(_OUTPUT.value):
    raise ValueError(f"{_OUTPUT.value} exists; give a new --output")
  if _FOLDER.value is not None:
    _export(_FOLDER.value, _OUTPUT.value)
  if _FROM.value is not None:
    _import(_FROM.value, _OUTPUT.value)
  print(f"wrote {_OUTPUT.value}")
  return 0


def _export(folder: str, output: str) -> None:
  with command.interrupts_held():
    from specjax.checkpoints import published
    from specjax.checkpoints.drafter_files import read_drafter
    from specjax.checkpoints.loaded import load_model
  if _FORMAT.value is None:
    raise ValueError(f"give --format, one of {', '.join(_FORMATS)}")
  named = _FORMAT.value in ("medusa", "speculators")
  if _TARGET_NAME.value is not None and not named:
    raise ValueError(
      f"{_FORMAT.value} states no target: leave --target_name out"
    )
  file = read_drafter(os.path.expanduser(folder))
  kind = published.FORMATS[_FORMAT.value]
  if file.kind != kind:
    raise ValueError(
      f"{folder} holds {file.kind}; {_FORMAT.value} is for {kind}"
    )
  target = _MODEL.value if FLAGS["model"].present else file.target
  published.write(
    output,
    file,
    load_model(target, "float32"),
    _FORMAT.value,
    name=_TARGET_NAME.value,
    dtype=_STORAGE.value or _stored(file.notes),
    embeddings=_EMBEDDINGS.value,
  )


def _import(folder: str, output: str) -> None:
  with command.interrupts_held():
    from specjax.checkpoints import published
    from specjax.checkpoints.drafter_files import save_drafter
    from specjax.checkpoints.loaded import load_model
    from specjax.drafters import trained
  given = [f"--{name}" for name in _OUT if FLAGS[name].present]
  if given:
    raise ValueError(f"{given[0]} goes with --drafter_folder, not with --from")
  if _STORAGE.value == "float16":
    raise ValueError("an import is kept in float32 or bfloat16, not float16")
  if published.find_format(folder) is None:
    raise ValueError(f"{folder} holds no published drafter")
  target = load_model(_MODEL.value, "float32")
  file = published.read(folder, target)
  trained.build(file, folder, target)  # it fits, or nothing is written
  stored = _STORAGE.value or _stored(file.notes)
  # float16 is exact in float32, not in bfloat16.
  save_drafter(output, file, "float32" if stored == "float16" else stored)


def _stored(notes: Any) -> str:
  """The type that imported weights came in."""
  return notes.get("dtype", "float32")


if __name__ == "__main__":
  command.run(main)
