"""What a trained drafter is worth on prompts that are held out."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from jaxtyping import PyTree

from experiments import setup
from experiments.train_recipes import KINDS
from experiments.train_settings import Settings
from specjax.checkpoints.loaded import LoadedModel
from specjax.training import data, evaluation, forced
from specjax.training.data import Conversation
from specjax.training.types import Frozen, Trainee


def try_out(
  settings: Settings,
  trainee: Trainee,
  frozen: Frozen,
  params: PyTree,
  target: LoadedModel,
  texts: Sequence[Conversation],
) -> list[dict[str, Any]]:
  """In the loop, and by teacher forcing on what the target had answered.

  Returns:
    a dict a temperature: figures of `evaluation.in_the_loop`, whose by_prompt
    are named here, and "held_out" of `forced.measure`; None where no text that
    is held out was drawn at that temperature, or none is asked for.

  Raises:
    ValueError: no prompt is held out.
  """
  share, tried = settings.texts.held_out, settings.tried
  held = [t for t in texts if data.is_held_out(t.prompt_id, share)]
  prompts: dict[str, tuple[int, ...]] = {}
  for text in held:
    if text.answers and text.answers[0][0]:
      prompts.setdefault(text.prompt_id, text.token_ids[: text.answers[0][0]])
  names = list(prompts)[: tried.prompts]
  if not names:
    raise ValueError("no prompt is held out to evaluate on: raise held_out")
  setup.report(f"evaluation: {len(names)} prompts that were not trained on")
  separate = KINDS[settings.recipe.kind].separate
  trial = settings.trial
  found = evaluation.in_the_loop(
    target,
    trainee.drafter(tried.num_speculative_tokens),
    trainee.draft_params(params, frozen),
    [prompts[name] for name in names],
    dataclasses.replace(trial, alpha=trial.alpha and separate),
    setup.report,
  )
  for one in found:
    for name, figures in zip(names, one["by_prompt"], strict=True):
      figures["prompt_id"] = name
    given = [t for t in held if t.temperature == one["temperature"]]
    one["held_out"] = forced.measure(
      trainee,
      params,
      frozen,
      target.model,
      given[: tried.texts],
      one["temperature"],
      setup.report,
    )
  return found


def without_prompts(one: Mapping[str, Any]) -> dict[str, Any]:
  """The same without the figures of each prompt."""
  kept = {k: v for k, v in one.items() if k != "by_prompt"}
  if (held := kept.get("held_out")) is not None:
    kept["held_out"] = {k: v for k, v in held.items() if k != "by_prompt"}
  return kept
