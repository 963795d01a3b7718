"""Draft model and prompt lookup on a code edit and a story, greedy and at T=1.

  python -m experiments.benchmark --config=configs/seed000.py \
    --model=HuggingFaceTB/SmolLM2-360M-Instruct \
    --draft_model=HuggingFaceTB/SmolLM2-135M-Instruct

Any pair of models that share a vocabulary. Where no hub can be reached, the
default model with its own first 25 layers as the draft, which exercises
rejection and is no good draft:

  python -m experiments.benchmark --config=configs/seed000.py --draft_layers=25

The protocol: 192 new tokens, drafts of 5 by a draft model at a constant length,
lookup of 10 where decoding is greedy, five repeats in turns. Target passes are
counted ("tok/pass"), and the first token that differs from plain decoding's is
named in summary.json (`identity`) and in the report.
"""

import os

from ml_collections import config_dict

from configs import benchmark

_PROMPTS = os.path.join(os.path.dirname(__file__), "prompts")


def get_config() -> config_dict.ConfigDict:
  """That of configs/benchmark.py with other values."""
  config = benchmark.get_config()
  config.update(
    prompt_file=os.path.join(_PROMPTS, "seed000.jsonl"),
    per_category=None,
    drafters=(
      "model num_speculative_tokens=5",
      "ngram num_speculative_tokens=10 temperature=0",
    ),
    temperatures=(0.0, 1.0),
    max_new_tokens=192,
    repeats=5,
  )
  return config
