"""What a drafter is worth to a target on some prompts, and how long to draft.

Alpha by teacher forcing on the target's own texts, acceptance by position from
real runs, and the speedup at every draft length: in closed form, from the rates
by position, from the rounds that ran, and measured.
"""

import dataclasses
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from specjax import metrics
from specjax.drafters import NoDraft
from specjax.evaluation.acceptance import alpha
from specjax.evaluation.costs import costs, lengths
from specjax.evaluation.costs.costs import Costs
from specjax.evaluation.costs.timed import Desk, Timed
from specjax.passes import Engine
from specjax.sampling import make_sampling
from specjax.types import Drafter, Params, Rule, Sampling

_MODE = "drafter"


@dataclasses.dataclass(frozen=True)
class Plan:
  """Sizes of a study.

  Attributes:
    temperatures: each is a part of its own.
    gammas: draft lengths to run, ascending; the last one's rates by position
      are what is reported.
    turns: how often every answer is timed.
    top_k, top_p, min_p: of the law, at every temperature.
    seed: of the draws.
  """

  temperatures: tuple[float, ...] = (0.0, 0.5, 1.0)
  gammas: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 7, 8)
  turns: int = 2
  top_k: int = 0
  top_p: float = 1.0
  min_p: float = 0.0
  seed: int = 0

  def law(self, temperature: float) -> Sampling:
    """Of one row; all temperatures share their programs."""
    filters = dict(top_k=self.top_k, top_p=self.top_p, min_p=self.min_p)
    hottest = make_sampling(1, temperature=max(self.temperatures), **filters)
    return dataclasses.replace(
      hottest, temperature=jnp.full((1,), temperature, jnp.float32)
    )


@dataclasses.dataclass(frozen=True)
class _Run:
  """Answers of one draft length at one temperature, by prompt, by turn."""

  gamma: int
  answers: list[list[Timed]]

  @property
  def stats(self) -> metrics.Stats:
    return metrics.pool([turns[0].stats(self.gamma) for turns in self.answers])

  @property
  def rounds(self) -> list[tuple[int, int, int, int]]:
    """Of every prompt's first turn, as the stats are."""
    return [one for turns in self.answers for one in turns[0].rounds]

  @property
  def seconds(self) -> float:
    """Medians over turns, prompts added up."""
    return sum(
      statistics.median(x.seconds for x in turns) for turns in self.answers
    )

  def predicted(self, parts: Costs) -> float:
    """The same from the costs of its rounds' parts."""
    return sum(
      costs.predict_seconds(turns[0].rounds, parts, turns[0].prompt_tokens)
      for turns in self.answers
    )


def with_length(drafter: Drafter, gamma: int) -> Drafter:
  """The drafter with another `num_speculative_tokens`.

  Raises:
    ValueError: it has no such field.
  """
  names = {field.name for field in dataclasses.fields(drafter)}  # pyrefly: ignore
  if "num_speculative_tokens" not in names or not drafter.num_nodes:
    raise ValueError(
      f"{type(drafter).__name__} has no draft length to vary: choose a drafter"
      " with num_speculative_tokens"
    )
  return dataclasses.replace(drafter, num_speculative_tokens=gamma)  # pyrefly: ignore


def study(
  desk: Desk,
  drafter: Drafter,
  draft: PyTree,
  rule: Rule,
  prompts: Sequence[Sequence[int]],
  plan: Plan,
  report: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
  """Runs and times everything in turns.

  Returns:
    {"costs": figures of the parts, "temperatures": a dict each, "samples": the
    lines of the cost samples}; see docs/acceptance.md for the names.
  """
  plain = desk.engine(NoDraft())
  engines = {
    gamma: desk.engine(with_length(drafter, gamma), rule)
    for gamma in plan.gammas
  }
  longest = engines[plan.gammas[-1]]
  sampler = _sampler(desk, longest, draft, prompts, plan)
  report(f"compiling {len(engines) + 1} loops and the parts of a round")
  sampler.compile()
  law = plan.law(plan.temperatures[-1])
  for engine in (plain, *engines.values()):
    weights = None if engine is plain else draft
    desk.decode(
      engine, weights, desk.read(engine, weights, prompts[0], law, plan.seed)
    )

  lines: list[dict[str, Any]] = []
  found = []
  for temperature in plan.temperatures:
    law = plan.law(temperature)
    runs = {g: _Run(g, [[] for _ in prompts]) for g in (0, *plan.gammas)}
    for turn in range(plan.turns):
      report(f"temperature {temperature:g}: turn {turn + 1} of {plan.turns}")
      for place, prompt in enumerate(prompts):
        lines += sampler.sample()
        for gamma, run in runs.items():
          engine = engines.get(gamma, plain)
          weights = draft if gamma else None
          rows = desk.read(engine, weights, prompt, law, plan.seed)
          run.answers[place].append(desk.decode(engine, weights, rows))
    report(f"temperature {temperature:g}: alpha by teacher forcing")
    texts = [turns[0].tokens for turns in runs[0].answers]
    forced = [
      _force(desk, longest, draft, prompt, text, law, plan.seed)
      for prompt, text in zip(prompts, texts, strict=True)
    ]
    found.append((temperature, alpha.summarize(*forced), runs))

  parts = Costs.from_samples(lines, _MODE)
  context = round(
    statistics.fmean(len(prompt) for prompt in prompts) + desk.new_tokens / 2
  )
  return {
    "costs": _cost_figures(parts, context),
    "temperatures": [
      {"temperature": t, **_figures(a, runs, parts, context)}
      for t, a, runs in found
    ],
    "samples": lines,
  }


def _sampler(desk: Desk, engine: Engine, draft, prompts, plan: Plan):
  sizes = [len(prompt) for prompt in prompts]
  subject = costs.Subject(
    mode=_MODE,
    engine=engine,
    params=Params(desk.params, draft),
    sampling=plan.law(plan.temperatures[-1]),
  )
  return costs.Sampler(
    [subject],
    context_lengths=(min(sizes), max(sizes) + desk.new_tokens),
    widths=range(1, plan.gammas[-1] + 2),
  )


def _force(desk: Desk, engine, draft, prompt, text, law, seed):
  rows = desk.read(engine, draft, prompt, law, seed)
  whole = np.zeros((1, desk.capacity), np.int32)
  whole[0, : len(prompt) + len(text)] = [*prompt, *text]
  rows = dataclasses.replace(rows, tokens=jnp.asarray(whole))
  until = jnp.full((1,), len(prompt) + len(text), jnp.int32)
  return alpha.force(engine, Params(desk.params, draft), rows, until)


def _cost_figures(parts: Costs, context: int) -> dict[str, Any]:
  """Seconds at the context in the middle of the answers."""
  plain = parts.pass_seconds(1, context)
  return {
    "context": context,
    "c": parts.c(context),
    "draft_step_s": parts.draft_step_seconds(context),
    "draft_s": {
      str(n): parts.draft_seconds(n, context) for n in parts.drafts[False]
    },
    "pass_s": {str(w): parts.pass_seconds(w, context) for w in parts.passes},
    "pass_over_one": {
      str(w): parts.pass_seconds(w, context) / plain for w in parts.passes
    },
  }


def _figures(
  measured: alpha.Alpha, runs: dict[int, _Run], parts: Costs, context: int
) -> dict[str, Any]:
  longest = runs[max(runs)]
  stats = longest.stats
  rates = stats.acceptance_per_position if stats.drafting_rounds else ()
  share = stats.drafting_rounds / stats.rounds
  given_earlier, _ = metrics.judged(longest.rounds, longest.gamma)
  # A position without a proposal is one at which nothing is accepted.
  overall = (measured.alpha or 0.0) * measured.share_proposed
  by_position = lengths.by_position(rates, share, parts, context)
  entries = [
    _length(run, runs[0], parts, overall, context, by_position)
    for gamma, run in runs.items()
    if gamma
  ]
  best = max(entries, key=lambda entry: entry["speedup"])
  return {
    "alpha": measured.to_json(),
    "closed_form_alpha": overall,
    "share_drafting": share,
    "acceptance_per_position": list(rates),
    "acceptance_per_position_conditional": given_earlier[: len(rates)],
    "positions": [dataclasses.asdict(p) for p in by_position],
    "cut": lengths.cut(by_position),
    "lengths": entries,
    "best_length": best["num_speculative_tokens"] if best["speedup"] > 1 else 0,
    "best_speedup": best["speedup"],
    "plain_tokens_per_s": runs[0].stats.emitted / runs[0].seconds,
  }


def _length(
  run: _Run, plain: _Run, parts: Costs, overall: float, context, by_position
) -> dict[str, Any]:
  stats, gamma = run.stats, run.gamma
  predicted, base = run.predicted(parts), plain.predicted(parts)
  tokens, plain_tokens = stats.emitted, plain.stats.emitted
  rated = [p.speedup for p in by_position if p.position == gamma]
  return {
    "num_speculative_tokens": gamma,
    "mean_acceptance_length": stats.mean_acceptance_length,
    "draft_acceptance_rate": stats.draft_acceptance_rate,
    "closed_form": lengths.closed_form(overall, gamma, parts.c(context)),
    "from_positions": rated[0] if rated else None,
    "predicted_speedup": (tokens / predicted) / (plain_tokens / base),
    "speedup": (tokens / run.seconds) / (plain_tokens / plain.seconds),
    "measured_s": run.seconds,
    "predicted_s": predicted,
    "ratio": run.seconds / predicted,
  }
