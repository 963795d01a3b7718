"""Plain decoding and prompt lookup beside transformers, llama.cpp and torch.

python -m experiments.benchmark --config=configs/peers.py

Needs the extra [compare]; see docs/peers.md, which has the expected figures.
About 25 minutes on two CPU cores, most of it transformers' assisted generation.
"""

from ml_collections import config_dict

from configs import benchmark


def get_config() -> config_dict.ConfigDict:
  """A story and copies whose beginning is given, greedy, 96 new tokens."""
  config = benchmark.get_config()
  config.categories = ("story", "copy, begun")
  config.per_category = 2
  config.num_speculative_tokens = (7, 10)
  config.peers = (
    "transformers plain",
    "transformers lookup",
    "transformers assisted",
    "llama.cpp plain",
    "llama.cpp lookup",
    "torch static",
  )
  config.max_new_tokens = 96
  config.repeats = 3
  config.costs = False
  return config
