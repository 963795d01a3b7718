"""What a drafter is worth, and how long to draft.

  python -m experiments.acceptance --drafter=ngram
  python -m experiments.acceptance --sweep

Two cores of a CPU, which must be quiet: about five minutes for prompt lookup,
ten for the sweep. docs/acceptance.md has figures to be expected.
"""

import os

from ml_collections import config_dict

_PROMPTS = os.path.join(os.path.dirname(__file__), "prompts")


def get_config() -> config_dict.ConfigDict:
  """Sizes of the run.

  `temperatures`, `max_new_tokens`, `gammas` and `prompt_file` are also flags.
  `turns` is how often everything is timed; `rates` are those of synthetic
  acceptance, which --sweep runs.
  """
  return config_dict.create(
    prompt_file=os.path.join(_PROMPTS, "chat.jsonl"),
    temperatures=(0.0, 0.5, 1.0),
    gammas="1..8",
    max_new_tokens=48,
    turns=2,
    rates=(0.2, 0.4, 0.6, 0.8, 0.9),
  )
