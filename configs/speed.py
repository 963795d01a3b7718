"""What a round costs on this machine.

  python -m experiments.speed --config=configs/speed.py

About two minutes on two CPU cores, which must be quiet. On two virtual cores of
an AMD EPYC, float32, the figures of docs/speed.md are to be expected.
"""

from ml_collections import config_dict


def get_config() -> config_dict.ConfigDict:
  """Sizes of the run; see specjax.evaluation.speed.Plan."""
  return config_dict.create(
    model="smollm2-135m",
    prompt="Write a short story about a lighthouse keeper.",
    rounds=16,
    repeats=9,
    capacity=512,
    widths=(5, 8),
    batch=32,
  )
