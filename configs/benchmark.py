"""Prompt lookup against plain decoding, on every class of prompts.

  python -m experiments.benchmark

Compares two modes, "none" and "ngram k=7", in turns on four prompts of each
class of configs/prompts/classes.jsonl, among them answers whose beginning is
given, which are rows of their own. Greedy, float32 on CPU, 128 new tokens, one
answer each: 40 prompts, one of them of two turns. Five minutes on two virtual
cores of an AMD EPYC, the model's download and compilation included. A trial of
two minutes:

  python -m experiments.benchmark --config.per_category=1 \
    --config.last_question=3 --config.max_new_tokens=8 --output=results/trial

To be expected: 1.32x (1.15 to 1.65) over the 25 prompts of the headline,
outputs identical, lookup well ahead of plain decoding where an answer copies
from its prompt, and level with it on stories and chat.
"""

import os

from ml_collections import config_dict

_PROMPTS = os.path.join(os.path.dirname(__file__), "prompts")


def get_config() -> config_dict.ConfigDict:
  """See experiments.benchmark_settings.Settings for the fields."""
  config = config_dict.create(
    prompt_file=os.path.join(_PROMPTS, "classes.jsonl"),
    categories=(),
    first_question=0,
    last_question=config_dict.placeholder(int),
    per_category=config_dict.placeholder(int),
    model="smollm2-135m",
    dtype=config_dict.placeholder(str),
    draft_model=config_dict.placeholder(str),
    draft_layers=config_dict.placeholder(int),
    drafters=("ngram",),
    rules=(),
    num_speculative_tokens=(),
    temperatures=(0.0,),
    top_k=0,
    top_p=1.0,
    min_p=0.0,
    lenience=config_dict.placeholder(float),
    peers=(),
    max_new_tokens=128,
    repeats=1,
    seed=0,
    chat=config_dict.placeholder(bool),
    costs=True,
    cost_rounds=0,
    route="",
  )
  config.per_category = 4
  return config
