"""Stern's blockwise heads beside the frozen target.

  python -m experiments.train --config=configs/train/blockwise.py

Four heads out of one feed-forward layer of 4 x 576 units, read by the target's
own rows of the 8,192 most frequent answer tokens (Stern et al. 2018, arXiv
1811.03115, section 4): 6.6 million weights. Each step draws one head for its
loss, as section 6 does. Two cores of a CPU, float32. Time, acceptance and speed
to be expected: see docs/training.md. With --config.smoke=True everything is run
once, in a few minutes.
"""

from ml_collections import config_dict

from configs.train import common


def get_config() -> config_dict.ConfigDict:
  """See experiments.train_settings.Settings for the fields."""
  return common.recipe(
    trainee=dict(
      kind="blockwise",
      loss="sft",
      vocabulary=8192,
      num_heads=4,
      inner_size=576,
      decay=1.0,
      one_head=True,
    ),
    optimizer=dict(learning_rate=1e-3),
    in_smoke=dict(trainee=dict(vocabulary=2048)),
  )
