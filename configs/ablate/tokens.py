"""Acceptance against training tokens, of three drafters.

  python -m experiments.ablate --config=configs/ablate/tokens.py \
    --config.files.chats=CHATS

CHATS are conversations of the default model. Every drafter takes the same steps
at every size, the smaller ones again and again, and keeps the weights of its
best evaluation; the largest has the first 300,000 answer tokens or all there
are. EAGLE-3 is trained one deep, since depth 1 is what is compared. What ten
times the data would give comes from the curve that fits best. Twelve trainings
a seed; for their time see docs/training.md.
"""

from ml_collections import config_dict

from configs.ablate import common
from configs.train import draft_model, eagle3, medusa

SIZES = (37_500, 75_000, 150_000, 300_000)


def get_config() -> config_dict.ConfigDict:
  """See experiments.ablate_settings.Study for the fields."""
  recipes = {
    "draft_model": draft_model.get_config(),
    "eagle3": eagle3.get_config(),
    "medusa": medusa.get_config(),
  }
  for name, recipe in recipes.items():
    recipe.data.conversations = "@chats"
    # The draft model's rows are twice as many a step.
    steps = 150 if name == "draft_model" else 400
    recipe.training.update(
      steps=steps, evaluate_every=steps // 4, patience=None
    )
  recipes["eagle3"].trainee.depth = 1
  return common.study(
    recipes=recipes,
    files=("chats",),
    arms=[
      {
        "name": f"{name}_{size}",
        "recipe": name,
        "curve": name,
        "against": f"{name}_{SIZES[0]}",
        "data": {"max_tokens": size},
      }
      for name in recipes
      for size in SIZES
    ],
  )
