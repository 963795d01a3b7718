"""What a device makes of a drafter: speedup by batch, context and draft length.

python -m experiments.roofline [--device=h100|here|...] [--concurrency=64] \
  [--draft=qwen3-0.6b|ngram|head|self:512] [--acceptance=0.75] \
  [--acceptance_from=FOLDER] [--output=FOLDER] [--json]
python -m experiments.roofline --check_page

--output writes figures as JSON, plots, and roofline.html: one page, which needs
nothing else, with all settings to move. --check_page runs its arithmetic in a
headless Chromium on random settings beside Python's.
"""

from absl import flags

from experiments import command, config_file, output, roofline_flags
from experiments import flags as shared

FLAGS = flags.FLAGS

roofline_flags.define()
flags.adopt_module_key_flags(roofline_flags)
flags.adopt_module_key_flags(command)

_CONFIG = config_file.define("Settings, by default configs/roofline.py.")
_DRAFT = flags.DEFINE_string(
  "draft",
  None,
  "Studied, beside the config's: a preset's name, the folder of a config.json,"
  " ngram, head, or self:TOKENS.",
)
_OUTPUT = flags.DEFINE_string(
  "output",
  None,
  "Folder for roofline.json, plots and roofline.html, made where missing.",
  **shared.ALSO_ELSEWHERE,
)
_JSON = flags.DEFINE_boolean(
  "json", False, "One JSON object on stdout.", **shared.ALSO_ELSEWHERE
)
_CHECK = flags.DEFINE_boolean(
  "check_page", False, "Compare the page's arithmetic with Python's instead."
)
_SETTINGS = flags.DEFINE_integer(
  "check_settings", 500, "Random settings of --check_page.", 1
)


def main() -> int:
  """The exit status: 1 where the page's arithmetic is not Python's."""
  if _CONFIG.value is None:
    raise ValueError("give --config=FILE.py")
  settings = roofline_flags.overlay(_CONFIG.value.to_dict())
  if FLAGS.acceptance is not None:
    settings["acceptance"] = _rate(FLAGS.acceptance)
  if _DRAFT.value is not None:
    rest = [name for name in settings["drafters"] if name != _DRAFT.value]
    settings["drafters"] = (_DRAFT.value, *rest)
  with command.interrupts_held():
    from experiments import roofline_runs  # it starts jax

  if _CHECK.value:
    return roofline_runs.check_page(_SETTINGS.value, as_json=_JSON.value)
  folder = output.make_folder(_OUTPUT.value, "roofline.json")
  return roofline_runs.study(settings, folder, as_json=_JSON.value)


def _rate(given: list[str]) -> float:
  try:
    (rate,) = map(float, given)
  except ValueError:
    shown = ",".join(given)
    raise ValueError(f"acceptance must be one number, got {shown!r}") from None
  return rate


if __name__ == "__main__":
  config_file.run(main, roofline_flags.DEFAULT)
