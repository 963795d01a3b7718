"""What the recipes of configs/train share; each states what differs."""

from typing import Any

from ml_collections import config_dict


def recipe(
  *,
  trainee: dict[str, Any],
  data: dict[str, Any] | None = None,
  labels: dict[str, Any] | None = None,
  batches: dict[str, Any] | None = None,
  training: dict[str, Any] | None = None,
  optimizer: dict[str, Any] | None = None,
  evaluation: dict[str, Any] | None = None,
  in_smoke: dict[str, Any] | None = None,
) -> config_dict.ConfigDict:
  """A config of experiments.train_settings.Settings.

  Args:
    trainee: kind, loss, vocabulary and the kind's options.
    data, labels, batches, training, optimizer, evaluation: fields that are not
      the defaults below.
    in_smoke: the same of `smoke`, by section.
  """
  sections: dict[str, dict[str, Any]] = {
    "trainee": {
      "loss": "forward_kl",
      "loss_temperature": 1.0,
      # A trained drafter's folder to go on from.
      "start": config_dict.placeholder(str),
      "as_it_is": False,
      "storage": "float32",
    }
    | trainee,
    # The target writes its own queries, then answers them as it will serve.
    # For the default model that was done before: "shipped" is its file, and
    # nothing for another model; "made" makes them in any case.
    "data": {
      "conversations": "shipped",
      "prompt_file": config_dict.placeholder(str),
      "held_out": 0.05,
      # Answer tokens to train on at most.
      "max_tokens": config_dict.placeholder(int),
      # Share of rows that the drafter of `start` answered itself.
      "on_policy": 0.0,
      "count": 4000,
      "seed": 0,
      "temperatures": (1.0,),
      "max_new_tokens": 256,
      "max_prompt_tokens": 256,
      "query_temperature": 1.0,
      "max_query_tokens": 128,
      "min_query_tokens": 4,
      "batch": 32,
      "group": 512,
    },
    # 50 tokens hold nearly all mass of most laws; the rest is one lump.
    "labels": {
      # A store that recipes share, and taps to have in it for the others.
      "folder": config_dict.placeholder(str),
      "taps": (),
      # All tokens of a law, made of the feature "hidden"; top_k is then of
      # what is held out.
      "whole": False,
      "top_k": 50,
      "log_probs_dtype": "float16",
      "features_dtype": "bfloat16",
    },
    "batches": {
      "batch": 4,
      "length": 384,
      "bucket": 64,
      "held_out": 8,
      "prompts": False,
      "data_devices": 1,
      "model_devices": 1,
    },
    "training": {
      "steps": 1000,
      "micro_batches": 1,
      "dtype": "float32",
      "log_every": 10,
      "evaluate_every": 100,
      "temperature": 1.0,
      "patience": 5,
      "keep": 2,
      "seed": 0,
    },
    "optimizer": {
      "method": "muon",
      "learning_rate": 1.5e-3,
      "warmup_steps": 40,
      "decay": "cosine",
      "last_share": 0.02,
      "weight_decay": 0.1,
      "b1": 0.9,
      "b2": 0.98,
      "eps": 1e-8,
      "clip": 1.0,
    },
    "evaluation": {
      "prompts": 32,
      "num_speculative_tokens": 4,
      # Texts to force, and a file of them that is not the training's.
      "texts": 32,
      "conversations": config_dict.placeholder(str),
      "temperatures": (0.0, 1.0),
      "max_new_tokens": 96,
      "max_batch": 8,
      "alpha": True,
      "seed": 0,
    },
  }
  given = {
    "data": data,
    "labels": labels,
    "batches": batches,
    "training": training,
    "optimizer": optimizer,
    "evaluation": evaluation,
  }
  for name, changes in given.items():
    sections[name] |= changes or {}
  smoke: dict[str, dict[str, Any]] = {
    "data": {
      "conversations": "made",
      "held_out": 0.2,
      "count": 48,
      "max_new_tokens": 48,
      "max_prompt_tokens": 64,
      "max_query_tokens": 48,
    },
    "batches": {"batch": 4, "length": 96, "bucket": 96, "held_out": 2},
    "training": {
      "steps": 20,
      "log_every": 5,
      "evaluate_every": 10,
      "patience": config_dict.placeholder(int),
    },
    "optimizer": {"warmup_steps": 5},
    "evaluation": {
      "prompts": 4,
      "texts": 4,
      "max_new_tokens": 24,
      "max_batch": 4,
    },
  }
  for name, changes in (in_smoke or {}).items():
    smoke[name] = smoke.get(name, {}) | changes
  return config_dict.create(
    model="smollm2-135m",
    dtype=config_dict.placeholder(str),
    smoke=False,
    in_smoke=smoke,
    **sections,
  )
