"""A wide, shallow draft model, cut from its target.

  python -m experiments.train --config=configs/train/draft_model.py

The first four layers of the default model, which stay as they are, and its last
four, which are trained: 14.2 million weights. Its embedding and the head's rows
of the 8,192 most frequent answer tokens are the target's too. Two cores of a
CPU, float32. Time, acceptance and speed to be expected: see docs/training.md.
With --config.smoke=True everything is run once, in a few minutes.
"""

from ml_collections import config_dict

from configs.train import common


def get_config() -> config_dict.ConfigDict:
  """See experiments.train_settings.Settings for the fields."""
  return common.recipe(
    trainee=dict(
      kind="draft_model",
      vocabulary=8192,
      layers=(0, 1, 2, 3, 26, 27, 28, 29),
      share_layers=4,
      feature_weight=0.0,
      share_embedding=True,
      train_head=False,
      chunk=64,
    ),
    batches=dict(batch=8, prompts=True),
    in_smoke=dict(trainee=dict(vocabulary=2048)),
  )
