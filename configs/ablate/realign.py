"""A stock draft under a fine-tuned target, realigned in several ways.

  python -m experiments.ablate --config=configs/ablate/realign.py \
    --config.files.target=TUNED --config.files.stock=DRAFTER \
    --config.files.given=GIVEN --config.files.chats=CHATS \
    --config.files.stock_chats=STOCK_CHATS

TUNED is the folder "model" of experiments.finetune, DRAFTER that of a draft
model that configs/train/draft_model.py trained for the stock target. GIVEN are
TUNED's answers to prompts of what it was tuned for, CHATS those to queries that
it wrote itself, STOCK_CHATS what DRAFTER learnt from. All realignments start
from DRAFTER, take the same steps, and are judged on prompts of GIVEN that are
held out; `stale` is what they are compared with. `stock` is DRAFTER under the
target it was made for, on the prompts it was made for. The two fresh drafts
have 12.6 million weights in their layers, wide and shallow or narrow and deep,
and nothing of the target's. Whole laws need memory for 8 bytes times batch,
length and vocabulary, three times over. See docs/training.md.
"""

from ml_collections import config_dict

from configs.ablate import common
from configs.train import draft_model

# Anew, not from good weights.
_ANEW = {"method": "muon", "learning_rate": 3e-3}
_FRESH = {
  "start": None,
  "layers": None,
  "share_embedding": False,
  "train_head": True,
  "share_layers": 0,
  "feature_weight": 0.0,
}


def get_config() -> config_dict.ConfigDict:
  """See experiments.ablate_settings.Study for the fields."""
  recipe = draft_model.get_config()
  recipe.trainee.start = "@stock"
  recipe.data.conversations = "@given"
  recipe.evaluation.conversations = "@given"
  recipe.training.update(steps=80, evaluate_every=40, patience=None)
  recipe.batches.update(batch=4, held_out=4, prompts=False)
  # From weights that are good already, with few rows: AdamW takes half as long
  # a step as Muon.
  recipe.optimizer.update(
    method="adamw", learning_rate=2e-4, warmup_steps=10, weight_decay=0.01
  )
  # Tokens of a law that any arm asks for, and what whole laws are made of.
  recipe.labels.update(top_k=20, taps=("hidden",))
  kl = {"against": "forward_kl"}
  return common.study(
    recipes={"draft_model": recipe},
    model="@target",
    files=("target", "stock", "given", "chats", "stock_chats"),
    arms=(
      {"name": "stale", "trainee": {"as_it_is": True}},
      {
        "name": "stock",
        "model": "smollm2-135m",
        "trainee": {"as_it_is": True},
        "data": {"conversations": "@stock_chats"},
        "evaluation": {"conversations": "@stock_chats"},
      },
      {"name": "forward_kl"},
      {"name": "sft", "trainee": {"loss": "sft"}},
      {"name": "total_variation", "trainee": {"loss": "total_variation"}},
      {"name": "lk_alpha", "trainee": {"loss": "lk_alpha"}},
      {"name": "on_policy_half", "data": {"on_policy": 0.5}, **kl},
      {"name": "on_policy", "data": {"on_policy": 1.0}, **kl},
      {"name": "own_queries", "data": {"conversations": "@chats"}, **kl},
      {"name": "top_k_50", "labels": {"top_k": 50}, **kl},
      {"name": "whole_laws", "labels": {"whole": True}, **kl},
      {
        "name": "fresh_wide",
        "trainee": _FRESH | {"num_layers": 2, "hidden_size": 768},
        "optimizer": _ANEW,
      },
      {
        "name": "fresh_deep",
        "against": "fresh_wide",
        "trainee": _FRESH | {"num_layers": 8, "hidden_size": 384},
        "optimizer": _ANEW,
      },
    ),
  )
