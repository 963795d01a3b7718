"""EAGLE-3: three fused features, trained on its own outputs three deep.

  python -m experiments.train --config=configs/train/eagle3.py

One layer over a low, a middle and a high layer of the target, each normed, the
training-time test three steps deep, read by the target's own rows of the 8,192
most frequent answer tokens, where Li et al. 2025 (arXiv 2503.01840, section 3)
train a head: 5.1 million weights. The shipped one took two runs, 560 steps with
--config.trainee.depth=1 and 300 from these. Two cores of a CPU, float32. Time,
acceptance and speed to be expected: see docs/training.md. With
--config.smoke=True everything is run once, in a few minutes.
"""

from ml_collections import config_dict

from configs.train import common


def get_config() -> config_dict.ConfigDict:
  """See experiments.train_settings.Settings for the fields."""
  return common.recipe(
    trainee=dict(
      kind="eagle3",
      vocabulary=8192,
      depth=3,
      decay=0.8,
      norm_output=False,
      fc_norm=True,
      own_head=False,
    ),
    batches=dict(prompts=True),
    optimizer=dict(learning_rate=3e-3),
    in_smoke=dict(trainee=dict(vocabulary=2048)),
  )
