"""The two parts of the acceptance command: the study and the sweep."""

import dataclasses
import inspect
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from absl import flags

from experiments import acceptance_show, memory, setup
from experiments.output import make_folder
from specjax import acceptance, sampling
from specjax.api.lanes import bucket
from specjax.checkpoints.loaded import LoadedModel
from specjax.drafters import registry
from specjax.evaluation import records
from specjax.evaluation.acceptance import acceptance_study, tree_study
from specjax.evaluation.costs import prediction
from specjax.evaluation.costs.costs import FILE as COSTS
from specjax.evaluation.costs.timed import Desk
from specjax.evaluation.questions import Question
from specjax.evaluation.runs import environment
from specjax.evaluation.runs.conversations import prompt_ids, wants_chat
from specjax.types import Rule

FLAGS = flags.FLAGS
_SPARE = 2  # tokens of the buffers past the longest answer
# Kept away from end-of-text tokens, which lead most vocabularies.
_FILLER = 100


def study(
  asked: Sequence[Question],
  chat: bool | None,
  config: dict[str, Any],
  output: str | None,
  *,
  as_json: bool,
) -> int:
  """One drafter, everything that is to be known of its length or its tree."""
  _check_sizes(config)
  plan = setup.make_plan()
  kind = registry.find(plan.drafter)
  if "num_speculative_tokens" not in inspect.signature(kind).parameters:
    if not kind.num_nodes:
      raise ValueError(
        f"drafter {plan.drafter!r} proposes nothing: choose one, such as"
        " --drafter=ngram"
      )
    return _tree(plan, asked, chat, config, output, as_json=as_json)
  settings = dataclasses.replace(
    plan.settings, num_speculative_tokens=config["gammas"][-1]
  )
  registry.check(plan.drafter, settings)
  sizes = _sizes(config)
  folder = make_folder(output, "acceptance.json")
  plan = dataclasses.replace(plan, settings=settings)
  target, methods = plan.load()
  drafter = methods["drafter"]
  params, rule = setup.judged_by(target, methods)
  prompts = _prompts(asked, target, chat)
  ends = target.tokenizer.eos_ids if target.tokenizer else ()
  desk = _desk(target, prompts, config["max_new_tokens"], ends)
  memory.reuse_freed_memory()
  result = acceptance_study.study(
    desk, drafter, params.draft, rule, prompts, sizes, setup.report
  )
  result = {
    **_of_methods(plan, methods, rule),
    **_of_run(target, config, prompts),
    **result,
  }
  _write(folder, "acceptance", result, result.pop("samples"))
  _print(result, as_json, acceptance_show.study)
  return 0


def _tree(
  plan: setup.Plan,
  asked: Sequence[Question],
  chat: bool | None,
  config: dict[str, Any],
  output: str | None,
  *,
  as_json: bool,
) -> int:
  """A tree's acceptance by rank, and the best tree for it."""
  if FLAGS["gammas"].present:
    raise ValueError(f"drafter {plan.drafter!r} has no draft length to vary")
  folder = make_folder(output, "acceptance.json")
  target, methods = plan.load()
  drafter = methods["drafter"]
  params, rule = setup.judged_by(target, methods)
  prompts = _prompts(asked, target, chat)
  ends = target.tokenizer.eos_ids if target.tokenizer else ()
  desk = _desk(target, prompts, config["max_new_tokens"], ends)
  result = tree_study.study(
    target,
    desk.engine(drafter, rule),
    params.draft,
    prompts,
    _sizes(config),
    config["max_new_tokens"],
    setup.report,
  )
  result = {
    **_of_methods(plan, methods, rule),
    "options": plan.options,
    "num_nodes": drafter.num_nodes,
    "max_depth": drafter.max_depth,
    **_of_run(target, config, prompts),
    **result,
  }
  _write(folder, "acceptance", result, result.pop("samples"), "tree")
  _print(result, as_json, acceptance_show.tree)
  return 0


def _sizes(config: dict[str, Any]) -> acceptance_study.Plan:
  return acceptance_study.Plan(
    temperatures=tuple(config["temperatures"]),
    gammas=config["gammas"],
    turns=config["turns"],
    top_k=FLAGS.top_k,
    top_p=FLAGS.top_p,
    min_p=FLAGS.min_p,
    seed=FLAGS.seed,
  )


def sweep(
  asked: Sequence[Question],
  chat: bool | None,
  config: dict[str, Any],
  output: str | None,
  *,
  as_json: bool,
) -> int:
  """Predicted against measured time, for lookup and synthetic acceptance."""
  _check_sizes(config)
  rates = tuple(config["rates"])
  if not all(0 <= rate < 1 for rate in rates):
    raise ValueError(f"rates must be in [0, 1), got {rates}")
  plan = setup.make_plan()
  for flag in ("drafter", "draft_model", "draft_layers", "rule"):
    if FLAGS[flag].present:
      raise ValueError(f"--sweep brings its own drafters: leave out --{flag}")
  folder = make_folder(output, "prediction.json")
  target, _ = plan.load()
  prompts = _prompts(asked, target, chat)
  desk = _desk(target, prompts, config["max_new_tokens"], ())
  memory.reuse_freed_memory()
  result = prediction.sweep(
    desk,
    prompts,
    prediction.Plan(
      gammas=config["gammas"],
      rates=rates,
      turns=config["turns"],
      filler=min(_FILLER, target.model.vocab_size - 1),
    ),
    setup.report,
  )
  lines = result.pop("costs")
  result = {**_of_run(target, config, prompts), **result}
  _write(folder, "prediction", result, lines)
  _print(result, as_json, acceptance_show.sweep)
  return 0


def _check_sizes(config: dict[str, Any]) -> None:
  for name in ("max_new_tokens", "turns"):
    if config[name] < 1:
      raise ValueError(f"{name} must be at least 1, got {config[name]}")
  if not config["temperatures"]:
    raise ValueError("temperatures must be one or more numbers")
  for temperature in config["temperatures"]:
    sampling.make_sampling(1, temperature=temperature)


def _prompts(
  asked: Sequence[Question], target: LoadedModel, chat: bool | None
) -> list[list[int]]:
  tokenizer = target.tokenizer
  if tokenizer is None:
    raise ValueError(f"{target.name} has no tokenizer to read prompts with")
  chat = wants_chat(tokenizer, chat)
  return [prompt_ids(tokenizer, question, [], chat) for question in asked]


def _desk(target: LoadedModel, prompts, new_tokens: int, ends) -> Desk:
  longest = max(len(prompt) for prompt in prompts)
  most = target.model.max_positions
  if longest + new_tokens + _SPARE > most:
    raise ValueError(
      f"a prompt has {longest} tokens and {target.name} takes {most}, answer"
      f" of {new_tokens} included: shorten it, or lower max_new_tokens"
    )
  return Desk(
    target.model,
    target.params,
    capacity=min(bucket(longest + new_tokens + _SPARE), most),
    new_tokens=new_tokens,
    eos_ids=tuple(ends),
  )


def _of_methods(
  plan: setup.Plan, methods: dict[str, Any], rule: Rule
) -> dict[str, Any]:
  draft = methods["draft"]
  return {
    "drafter": plan.drafter,
    "draft_model": None if draft is None else draft.name,
    "rule": rule.name,
    "lossless": acceptance.is_lossless(methods["drafter"], rule),
  }


def _of_run(target: LoadedModel, config, prompts) -> dict[str, Any]:
  return {
    "prompts": len(prompts),
    "environment": environment.describe(target.name, target.dtype, config),
    "config": config,
  }


def _write(
  folder: Path | None, name: str, result, lines, drawn: str | None = None
) -> None:
  if folder is None:
    return
  from specjax.evaluation.acceptance import acceptance_plot

  for line in lines:
    records.append(folder / COSTS, line)
  text = json.dumps(result, indent=2) + "\n"
  (folder / f"{name}.json").write_text(text, encoding="utf-8")
  acceptance_plot.DRAW[drawn or name](result, folder / f"{name}.png")
  setup.report(f"written to {folder}")


def _print(result, as_json: bool, show) -> None:
  if as_json:
    print(json.dumps(result))
  else:
    show(result)
