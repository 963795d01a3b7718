"""Medusa-1 heads beside the frozen target.

  python -m experiments.train --config=configs/train/medusa.py

Four heads of one residual layer, all read by the target's own rows of the 8,192
most frequent answer tokens (Cai et al. 2024, arXiv 2401.10774, section 2.2.1,
trains rows of each head's own): 1.3 million weights. Each head learns the law
that the target had at its place, 0.8 times as much a head further: the paper's
cross-entropy of the text has the same best weights, and more noise. Two
cores of a CPU, float32. Time, acceptance and speed to be expected: see
docs/training.md. With --config.smoke=True everything is run once, in a few
minutes.
"""

from ml_collections import config_dict

from configs.train import common


def get_config() -> config_dict.ConfigDict:
  """See experiments.train_settings.Settings for the fields."""
  return common.recipe(
    trainee=dict(
      kind="medusa",
      loss="forward_kl",
      vocabulary=8192,
      num_heads=4,
      num_layers=1,
      own_heads=False,
      decay=0.8,
      one_head=False,
    ),
    batches=dict(prompts=True),
    optimizer=dict(learning_rate=2e-3),
    in_smoke=dict(trainee=dict(vocabulary=2048)),
  )
