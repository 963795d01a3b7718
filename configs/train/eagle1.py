"""EAGLE-1, as an ablation of EAGLE-3: one step, regressed features.

  python -m experiments.train --config=configs/train/eagle1.py

One layer over the target's last feature, which learns the next feature by
smooth L1 and, at a tenth of that, the target's law (Li et al. 2024, arXiv
2401.15077, section 4.2); the target's own rows of the 8,192 most frequent
answer tokens read it: 4.2 million weights. Two cores of a CPU, float32. Time,
acceptance and speed to be expected: see docs/training.md. With
--config.smoke=True everything is run once, in a few minutes.
"""

from ml_collections import config_dict

from configs.train import common


def get_config() -> config_dict.ConfigDict:
  """See experiments.train_settings.Settings for the fields."""
  return common.recipe(
    trainee=dict(
      kind="eagle1",
      vocabulary=8192,
      depth=4,
      noise=0.1,
      token_weight=0.1,
    ),
    in_smoke=dict(trainee=dict(vocabulary=2048)),
  )
