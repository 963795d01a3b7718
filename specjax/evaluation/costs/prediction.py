"""Is a round its parts? Predicted against measured time at every draft length.

For prompt lookup, and for acceptance at chosen rates, all in turns in one run:
the sum of drafting and of target passes, timed by calls of their own right
before each answer, beside what decoding really took.
"""

import dataclasses
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
from jaxtyping import PyTree

from specjax import metrics
from specjax.acceptance import LossySynthetic
from specjax.drafters import NGram, NoDraft
from specjax.evaluation.costs import costs
from specjax.evaluation.costs.filler import Filler
from specjax.evaluation.costs.timed import Desk, Timed
from specjax.passes import Engine
from specjax.sampling import make_sampling
from specjax.theory import speedup
from specjax.types import Params

PLAIN, LOOKUP, SYNTHETIC = "none", "ngram", "synthetic"


@dataclasses.dataclass(frozen=True)
class Plan:
  """Sizes of a sweep.

  Attributes:
    gammas: draft lengths, 1 or more each.
    rates: of synthetic acceptance, in [0, 1).
    turns: how often everything is measured.
    filler: a token to fill synthetic drafts with.
  """

  gammas: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 7, 8)
  rates: tuple[float, ...] = (0.2, 0.4, 0.6, 0.8, 0.9)
  turns: int = 3
  filler: int = 4


@dataclasses.dataclass(frozen=True)
class Way:
  """One way of decoding of the sweep; `mode` names whose drafting it costs."""

  name: str
  mode: str
  gamma: int
  rate: float | None
  engine: Engine
  draft: PyTree = None


def sweep(
  desk: Desk,
  prompts: Sequence[Sequence[int]],
  plan: Plan,
  report: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
  """Measures and predicts every way at every draft length.

  Returns:
    {"costs": the lines of the cost samples, "cases": a dict for each way, of
    name, num_speculative_tokens, acceptance_rate, tokens, rounds,
    mean_acceptance_length, measured_s, predicted_s, ratio (measured over
    predicted), bookkeeping (the share of the measured time that was not
    predicted), speedup and predicted_speedup over plain decoding, and
    closed_form, theorem 3.8 of Leviathan et al., which takes a pass over more
    tokens to cost no more}.
  """
  law = make_sampling(1)
  ways = _ways(desk, plan)
  samplers = {
    gamma: _sampler(desk, prompts, [w for w in ways if w.gamma == gamma])
    for gamma in dict.fromkeys(way.gamma for way in ways)
  }
  report(f"compiling {len({way.engine for way in ways})} loops")
  for sampler in samplers.values():
    sampler.compile()
  for way in {way.engine: way for way in ways}.values():
    rows = desk.read(way.engine, way.draft, prompts[0], law)
    desk.decode(way.engine, way.draft, rows)

  lines: list[dict[str, Any]] = []
  runs: dict[tuple[str, int], list[list[Timed]]] = {}
  for turn in range(plan.turns):
    for answers in (runs.setdefault((w.name, w.gamma), []) for w in ways):
      answers.append([])
    for place, prompt in enumerate(prompts):
      report(f"turn {turn + 1} of {plan.turns}, prompt {place + 1}")
      for way in ways:
        label = {"turn": turn, "num_speculative_tokens": way.gamma}
        lines += [{**x, **label} for x in samplers[way.gamma].sample()]
        rows = desk.read(way.engine, way.draft, prompt, law)
        timed = desk.decode(way.engine, way.draft, rows)
        runs[way.name, way.gamma][turn].append(timed)
  cases = [_case(way, runs[way.name, way.gamma], lines) for way in ways]
  return {"cases": _beside_plain(cases, lines, ways, prompts), "costs": lines}


def _ways(desk: Desk, plan: Plan) -> list[Way]:
  ways = [Way(PLAIN, PLAIN, 0, None, desk.engine(NoDraft()))]
  for gamma in plan.gammas:
    lookup = desk.engine(NGram(gamma))
    ways.append(Way(LOOKUP, f"{LOOKUP} {gamma}", gamma, None, lookup))
  for gamma in plan.gammas:
    engine = desk.engine(Filler(gamma, plan.filler), LossySynthetic(None))
    for rate in plan.rates:
      draft = {"rates": jnp.full((gamma,), rate, jnp.float32)}
      name, mode = f"{SYNTHETIC} {rate:g}", f"{SYNTHETIC} {gamma}"
      ways.append(Way(name, mode, gamma, rate, engine, draft))
  return ways


def _sampler(desk: Desk, prompts, ways) -> costs.Sampler:
  lengths = [len(prompt) for prompt in prompts]
  subjects = [
    costs.Subject(
      mode=way.mode,
      engine=way.engine,
      params=Params(desk.params, way.draft),
      sampling=make_sampling(1),
      counts=(0, way.gamma) if way.gamma else (0,),
    )
    for way in {way.mode: way for way in ways}.values()
  ]
  return costs.Sampler(
    subjects,
    context_lengths=(min(lengths), max(lengths) + desk.new_tokens),
  )


def _case(
  way: Way, turns: list[list[Timed]], lines: list[dict[str, Any]]
) -> dict[str, Any]:
  """Prompts added up, medians over turns.

  A turn is predicted from the costs that were sampled in it beside this draft
  length, so that a machine whose speed drifts is the same for both.
  """
  measured, predicted = [], []
  for turn, answers in enumerate(turns):
    parts = _costs(way, lines, turn)
    measured.append(sum(x.seconds for x in answers))
    predicted.append(
      sum(
        costs.predict_seconds(x.rounds, parts, x.prompt_tokens) for x in answers
      )
    )
  ratio = statistics.median(
    m / p for m, p in zip(measured, predicted, strict=True)
  )
  stats = metrics.pool([x.stats(way.gamma) for x in turns[0]])
  return {
    "name": way.name,
    "num_speculative_tokens": way.gamma,
    "acceptance_rate": way.rate,
    "tokens": stats.emitted,
    "rounds": stats.rounds,
    "mean_acceptance_length": stats.mean_acceptance_length,
    "measured_s": statistics.median(measured),
    "predicted_s": statistics.median(predicted),
    "ratio": ratio,
    "bookkeeping": 1 - 1 / ratio,
  }


def _costs(way: Way, lines, turn: int | None = None) -> costs.Costs:
  """Of the samples taken beside a draft length, in one turn or in all."""
  mine = [
    x
    for x in lines
    if x["num_speculative_tokens"] == way.gamma and turn in (None, x["turn"])
  ]
  return costs.Costs.from_samples(mine, way.mode)


def _beside_plain(cases, lines, ways, prompts) -> list[dict[str, Any]]:
  plain = cases[0]
  context = statistics.fmean(len(prompt) for prompt in prompts)
  keys = {"speedup": "measured_s", "predicted_speedup": "predicted_s"}
  for case, way in zip(cases, ways, strict=True):
    for name, key in keys.items():
      ours, its = case["tokens"] / case[key], plain["tokens"] / plain[key]
      case[name] = ours / its
    case["closed_form"] = None
    if way.rate is not None:
      c = _costs(way, lines).c(round(context))
      case["closed_form"] = float(speedup.speedup(way.rate, way.gamma, c))
  return cases
