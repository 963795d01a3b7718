"""Is a round its parts? Predicted against measured time at every draft length.

For prompt lookup, and for acceptance at chosen rates, all in turns in one run:
the sum of drafting and of target passes, timed by calls of their own, beside
what decoding really took.
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
from specjax.evaluation import costs
from specjax.evaluation.filler import Filler
from specjax.evaluation.timed import Desk, Timed
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
  sampler = _sampler(desk, prompts, ways)
  report(f"compiling {len({way.engine for way in ways})} loops")
  sampler.compile()
  for way in {way.engine: way for way in ways}.values():
    rows = desk.read(way.engine, way.draft, prompts[0], law)
    desk.decode(way.engine, way.draft, rows)

  lines: list[dict[str, Any]] = []
  runs: dict[tuple[str, int], dict[int, list[Timed]]] = {}
  for turn in range(plan.turns):
    for place, prompt in enumerate(prompts):
      report(f"turn {turn + 1} of {plan.turns}, prompt {place + 1}")
      lines += sampler.sample()
      for way in ways:
        rows = desk.read(way.engine, way.draft, prompt, law)
        timed = desk.decode(way.engine, way.draft, rows)
        answers = runs.setdefault((way.name, way.gamma), {})
        answers.setdefault(place, []).append(timed)
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
  way: Way, answers: dict[int, list[Timed]], lines: list[dict[str, Any]]
) -> dict[str, Any]:
  """Of the median over turns of each prompt, prompts added up."""
  parts = costs.Costs.from_samples(lines, way.mode)
  measured = predicted = 0.0
  for turns in answers.values():
    measured += statistics.median(x.seconds for x in turns)
    predicted += costs.predict_seconds(
      turns[0].rounds, parts, turns[0].prompt_tokens
    )
  stats = metrics.pool([x[0].stats(way.gamma) for x in answers.values()])
  return {
    "name": way.name,
    "num_speculative_tokens": way.gamma,
    "acceptance_rate": way.rate,
    "tokens": stats.emitted,
    "rounds": stats.rounds,
    "mean_acceptance_length": stats.mean_acceptance_length,
    "measured_s": measured,
    "predicted_s": predicted,
    "ratio": measured / predicted if predicted else None,
    "bookkeeping": 1 - predicted / measured,
  }


def _beside_plain(cases, lines, ways, prompts) -> list[dict[str, Any]]:
  plain = cases[0]
  context = statistics.fmean(len(prompt) for prompt in prompts)
  keys = {"speedup": "measured_s", "predicted_speedup": "predicted_s"}
  for case, way in zip(cases, ways, strict=True):
    for name, key in keys.items():
      ours, its = plain[key] / plain["tokens"], case[key] / case["tokens"]
      case[name] = ours / its if its else None
    case["closed_form"] = None
    if way.rate is not None:
      c = costs.Costs.from_samples(lines, way.mode).c(round(context))
      case["closed_form"] = float(speedup.speedup(way.rate, way.gamma, c))
  return cases
