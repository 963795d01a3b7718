"""A run's measured speedups beside those that the roofline says of devices.

Both are of the same answers: one class of prompts, or those of the run's
headline. What is predicted is tokens a round, from the acceptance by position
that these answers had, times what a round costs on a device that is kept full;
so that its interval is that of the tokens, over the same prompts.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from specjax.evaluation import records
from specjax.evaluation.figures import paired, statistics
from specjax.evaluation.figures.paired import Pair
from specjax.evaluation.figures.pooling import is_repetitive
from specjax.evaluation.records import Answer, Mode
from specjax.evaluation.roofline import cases, of_run, question, round_tokens
from specjax.evaluation.roofline.of_run import Drafted, Run
from specjax.theory import rounds, shapes
from specjax.theory.devices import Device
from specjax.theory.roofline import Setup
from specjax.theory.rounds import Drafter
from specjax.theory.shapes import ModelShape


@dataclasses.dataclass(frozen=True)
class _Load:
  """What every prediction of a mode has in common."""

  target: ModelShape
  drafter: Drafter
  gamma: int
  context: float  # tokens of a row at its start
  new_tokens: float
  memory_share: float

  def of(self, context: int | None, new_tokens: int | None) -> "_Load":
    """With other lengths where they are given."""
    return dataclasses.replace(
      self,
      context=self.context if context is None else float(context),
      new_tokens=self.new_tokens if new_tokens is None else float(new_tokens),
    )


def compare(
  settings: Mapping[str, Any],
  devices: Sequence[str],
  batches: Sequence[int],
  context: int | None = None,
  new_tokens: int | None = None,
) -> dict[str, Any]:
  """Every mode that drafted, or the one of `mode`, on devices and here.

  Args:
    settings: fields of configs/roofline.py; `acceptance_from` is the run, and
      target and drafters may be None, as in `question.ask`.
    devices: names, "here" among them for this machine.
    batches: sequences that run together on them.
    context, new_tokens: of each; None are the means of the answers.

  Returns:
    run, target, categories: as asked for; empty is the headline's answers.
    modes: a list of {
      mode, draft: names; lossless; num_speculative_tokens; prompts, answers.
      acceptance_per_position: unconditional, of all rounds.
      tokens_per_round: {estimate, low, high, n, method}: 1 + their sum.
      context, new_tokens: of a sequence on the devices.
      measured: {device, dtype, batches, and a `statistics.Speedup`}; None
        without plain decoding of the same prompts.
      predicted: [{device, batch, estimate, low, high, draft_share: of a round's
        time; draft_cost: a draft's time over gamma plain passes; fits}].
    }
    left_out: [{mode, why}].

  Raises:
    ValueError: see `of_run.read` and `question.ask`; no mode is left.
  """
  for batch in batches:
    if batch < 1:
      raise ValueError(f"a batch must be at least 1, got {batch}")
  given, names = settings["target"], list(settings["drafters"] or [])
  categories = tuple(settings["categories"])
  run = of_run.read(settings["acceptance_from"], categories, given)
  chosen = list(run.modes)
  if settings["mode"] is not None or names:
    chosen = [run.choose(settings["mode"], *names)]
  places = {name: question.stand_on(name, settings)[:2] for name in devices}
  target, found, left_out = None, [], []
  for one in chosen:
    draft = names[0] if names else one.draft
    own, pairs = _answers(run, one)
    if draft is None or not own:
      why = "no answer is left of it"
      if draft is None:
        why = f"what {one.said} costs is not known: see --mode and --draft"
      left_out.append({"mode": one.mode.name, "why": why})
      continue
    target = run.target_for(given, draft)
    load = _load(target, draft, one.mode, own, float(settings["memory_share"]))
    load = load.of(context, new_tokens)
    found.append(_entry(one, draft, own, pairs, load, places, batches))
  if not found:
    reasons = "; ".join(f"{one['mode']}: {one['why']}" for one in left_out)
    raise ValueError(f"nothing of {run.folder} can be compared: {reasons}")
  return {
    "run": run.folder,
    "target": target,
    "categories": list(categories),
    "modes": found,
    "left_out": left_out,
  }


def _load(
  target: str,
  draft: str,
  mode: Mode,
  own: Sequence[Answer],
  memory_share: float,
) -> _Load:
  """With the mean lengths of the answers."""
  sizes = cases.sizes_of(target)
  return _Load(
    target=shapes.shape_of(sizes),
    drafter=cases.drafter_of(draft, sizes),
    gamma=mode.num_speculative_tokens,
    context=float(np.mean([answer.prompt_tokens for answer in own])),
    new_tokens=float(np.mean([answer.new_tokens for answer in own])),
    memory_share=memory_share,
  )


def _answers(run: Run, one: Drafted) -> tuple[list[Answer], list[Pair]]:
  """(those that count, and with plain decoding's where that was run).

  Of a whole run the headline's: no beginning was given, and neither side
  repeats itself.
  """
  own = [a for a in run.answers if a.mode.name == one.mode.name and a.rounds]
  base = paired.baseline(one.mode, records.modes(run.answers))
  others = [a for a in run.answers if base and a.mode.name == base.name]
  pairs = paired.join(own, others)
  if not run.categories:
    own = [a for a in own if not a.begun and not is_repetitive(a)]
    flattered = {a.key for a, b in pairs if is_repetitive(b)}
    own = [a for a in own if a.key not in flattered]
  keys = {a.key for a in own}
  pairs = [pair for pair in pairs if pair[0].key in keys]
  return ([a for a, _ in pairs] or own), pairs


def _entry(
  one: Drafted,
  draft: str,
  own: Sequence[Answer],
  pairs: Sequence[Pair],
  load: _Load,
  places: Mapping[str, tuple[Device, Setup]],
  batches: Sequence[int],
) -> dict[str, Any]:
  counts = round_tokens.count(own, load.gamma)
  tokens = round_tokens.per_round(counts)
  ratio = paired.speedup(pairs)
  measured = None
  if ratio is not None:
    measured = {
      "device": own[0].environment.get("device"),
      "dtype": own[0].environment.get("dtype"),
      "batches": sorted({answer.batch for answer in own}),
      **dataclasses.asdict(ratio),
    }
  return {
    "mode": one.mode.name,
    "draft": draft,
    "lossless": one.mode.lossless,
    "num_speculative_tokens": load.gamma,
    "prompts": len({answer.question_id for answer in own}),
    "answers": len(own),
    "acceptance_per_position": round_tokens.kept(counts.sum(0)).tolist(),
    "tokens_per_round": {
      name: getattr(tokens, name)
      for name in ("estimate", "low", "high", "n", "method")
    },
    "context": load.context,
    "new_tokens": load.new_tokens,
    "measured": measured,
    "predicted": [
      _predicted(name, *places[name], load, batch, tokens)
      for name in places
      for batch in batches
    ],
  }


def _predicted(
  name: str,
  device: Device,
  setup: Setup,
  load: _Load,
  batch: int,
  tokens: statistics.Estimate,
) -> dict[str, Any]:
  """Of one device and batch, every lane running at the mean context."""
  at = load.context + (load.new_tokens - 1) / 2
  place = (load.target, load.drafter, device, setup)
  with jax.enable_x64(True):
    one = rounds.speculative_round(*place, batch, at, load.gamma, 1.0)
    room = rounds.largest_batch(
      *place, load.context + load.new_tokens, load.memory_share
    )
    factor, share = float(one.speedup), float(one.draft_share)
    cost = float(one.draft_share * one.seconds / one.plain.seconds)
  scaled = {
    key: None if value is None else factor * value
    for key, value in (
      ("estimate", tokens.estimate),
      ("low", tokens.low),
      ("high", tokens.high),
    )
  }
  return {
    "device": name,
    "batch": batch,
    **scaled,
    "draft_share": share,
    "draft_cost": cost / load.gamma,
    "fits": batch <= float(room),
  }
