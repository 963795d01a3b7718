"""What a device makes of a drafter: speedup by batch, context and draft length.

python -m experiments.roofline [--device=h100|here|...] [--concurrency=64] \
  [--draft=qwen3-0.6b|ngram|head|self:512] [--acceptance=0.75] \
  [--acceptance_from=FOLDER] [--output=FOLDER] [--json]
python -m experiments.roofline --acceptance_from=FOLDER --categories=chat \
  --devices=h100,tpu-v4 [--batches=1,8,32] [--mode=NAME]
python -m experiments.roofline --check_page

With --devices a run's measured speedups stand beside those that its acceptance
gives on these devices, with intervals over its prompts.

--output writes figures as JSON, plots, and roofline.html: one page, which needs
nothing else, with all settings to move. --check_page runs its arithmetic in a
headless Chromium on random settings beside Python's.
"""

from collections.abc import Sequence

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
  " ngram, head, self:TOKENS, layers:N, a trained drafter's folder, or the name"
  " of a shipped one, as smollm2-135m:eagle3.",
)
_DEVICES = flags.DEFINE_list(
  "devices",
  None,
  "Listed chips, or here: a table of what the run of --acceptance_from measured"
  " and what they would give, in place of a study.",
)
_BATCHES = flags.DEFINE_list(
  "batches",
  None,
  "Sequences that run together: of --devices 1, 8 and 32 by default; else in"
  " place of the config's.",
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
_OF_A_RUN = ("acceptance", "shape", "ratio")
_OF_THE_TABLE = ("device", "concurrency", "gamma", "load")


def main() -> int:
  """The exit status: 1 where the page's arithmetic is not Python's."""
  if _CONFIG.value is None:
    raise ValueError("give --config=FILE.py")
  settings = roofline_flags.overlay(_CONFIG.value.to_dict())
  if FLAGS.acceptance is not None:
    settings["acceptance"] = _rate(FLAGS.acceptance)
  of_a_run = settings["acceptance_from"] is not None
  if of_a_run:
    _check_given(_OF_A_RUN, "acceptance_from")
    settings["drafters"] = None if _DRAFT.value is None else (_DRAFT.value,)
  elif _DRAFT.value is not None:
    rest = [name for name in settings["drafters"] if name != _DRAFT.value]
    settings["drafters"] = (_DRAFT.value, *rest)
  if _BATCHES.value is not None:
    settings["batches"] = _whole(_BATCHES.value)
  if _DEVICES.value is not None:
    _check_devices(of_a_run)
  with command.interrupts_held():
    from experiments import roofline_runs  # it starts jax

  if _CHECK.value:
    return roofline_runs.check_page(_SETTINGS.value, as_json=_JSON.value)
  folder = output.make_folder(_OUTPUT.value, "roofline.json")
  if _DEVICES.value is not None:
    return roofline_runs.beside(
      settings,
      _DEVICES.value,
      settings["batches"] if _BATCHES.value else (1, 8, 32),
      (FLAGS.context, FLAGS.new_tokens),
      folder,
      as_json=_JSON.value,
    )
  return roofline_runs.study(settings, folder, as_json=_JSON.value)


def _check_devices(of_a_run: bool) -> None:
  if not of_a_run:
    raise ValueError("--devices shows a run: give --acceptance_from")
  _check_given(_OF_THE_TABLE, "devices")


def _check_given(names: Sequence[str], by: str) -> None:
  for name in names:
    if FLAGS[name].value is not None:
      raise ValueError(f"--{by} takes no --{name}: it has its own")


def _whole(given: list[str]) -> tuple[int, ...]:
  if not all(text.isdecimal() and int(text) for text in given) or not given:
    shown = ",".join(given)
    raise ValueError(f"batches must be whole numbers, got {shown!r}")
  return tuple(map(int, given))


def _rate(given: list[str]) -> float:
  try:
    (rate,) = map(float, given)
  except ValueError:
    shown = ",".join(given)
    raise ValueError(f"acceptance must be one number, got {shown!r}") from None
  return rate


if __name__ == "__main__":
  config_file.run(main, roofline_flags.DEFAULT)
