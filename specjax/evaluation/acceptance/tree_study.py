"""What a tree of drafts is worth, and which tree would be worth most.

Acceptance by rank from real rounds: that of the k-th child of a kept node whose
earlier siblings were refused. Of it and of the measured costs follow the best
static trees (Chen et al. 2024, Sequoia, arXiv 2402.12374, sections 3.1 and
3.3), under their assumption that a rank is worth the same everywhere.
"""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float, Int

from specjax import api
from specjax.api.traces import RoundTrace
from specjax.checkpoints.loaded import LoadedModel
from specjax.evaluation.acceptance.acceptance_study import Plan
from specjax.evaluation.costs import costs
from specjax.evaluation.costs.costs import Costs
from specjax.passes import Engine
from specjax.theory import trees
from specjax.topologies import Topology, of_parents
from specjax.types import Params

SIZES = (1, 2, 4, 8, 16, 32, 64)
_KEPT = ("accepted", "cut")
_MODE = "tree"
_SAMPLES = 5
_BATCH = 8


@dataclasses.dataclass(frozen=True)
class Ranks:
  """Over all kept nodes with children, the root among them.

  Attributes:
    tried: children that were judged, by rank: those whose earlier siblings were
      refused.
    kept: those of them that were kept.
  """

  tried: Int[np.ndarray, "R"]
  kept: Int[np.ndarray, "R"]

  @property
  def conditional(self) -> Float[np.ndarray, "R"]:
    """Acceptance of the k-th child after k - 1 refused ones."""
    return self.kept / np.maximum(self.tried, 1)

  @property
  def acceptance(self) -> Float[Array, "R"]:
    """p_k, which `specjax.theory.trees` takes."""
    return trees.rank_acceptance(self.conditional)


def count_ranks(rounds: Iterable[RoundTrace]) -> Ranks:
  """Of what was kept and refused in some rounds, of any rows."""
  tried: dict[int, int] = {}
  kept: dict[int, int] = {}
  for trace in rounds:
    alive, below = {0}, {}
    for node in trace.nodes:
      below.setdefault(node.parent, []).append(node)
      if node.fate in _KEPT:
        alive.add(node.slot)
    for slot in alive & below.keys():
      for rank, node in enumerate(below[slot]):
        tried[rank] = tried.get(rank, 0) + 1
        if node.fate in _KEPT:
          kept[rank] = kept.get(rank, 0) + 1
          break
  size = max(tried, default=-1) + 1
  return Ranks(
    np.asarray([tried.get(rank, 0) for rank in range(size)], int),
    np.asarray([kept.get(rank, 0) for rank in range(size)], int),
  )


def study(
  target: LoadedModel,
  engine: Engine,
  draft: Any,
  prompts: Sequence[Sequence[int]],
  plan: Plan,
  new_tokens: int,
  report: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
  """Runs the prompts at every temperature and times the parts of a round.

  Args:
    target, engine, draft: who drafts for whom, and by which rule.
    prompts: token ids.
    plan: temperatures, filters and seed.
    new_tokens: of an answer.

  Returns:
    {"costs", "temperatures", "samples"}; see docs/acceptance.md.
  """
  context = round(np.mean([len(p) for p in prompts])) + new_tokens // 2
  report("timing passes and drafting")
  lines = _samples(target, engine, draft, plan, context)
  parts = Costs.from_samples(lines, _MODE)
  found = []
  for temperature in plan.temperatures:
    report(f"temperature {temperature:g}")
    run = api.stream(
      target,
      [list(prompt) for prompt in prompts],
      drafter=engine.drafter,
      draft=draft,
      rule=engine.rule,
      sampling=api.Sampling(temperature, plan.top_k, plan.top_p, plan.min_p),
      max_new_tokens=new_tokens,
      key=jax.random.key(plan.seed),
      max_batch=min(_BATCH, len(prompts)),
      record=True,
    )
    run.run_to_end()
    rounds = [trace for row in run.traces for trace in row]
    stats = run.output.stats
    figures = _figures(count_ranks(rounds), parts, context, engine)
    found.append(
      {
        "temperature": temperature,
        "mean_acceptance_length": stats.mean_acceptance_length,
        "acceptance_per_position": list(stats.acceptance_per_position),
        **figures,
      }
    )
  return {
    "costs": {
      "context": context,
      "draft_level": _level_cost(parts, context, engine),
      "pass_over_one": {
        str(width): parts.pass_seconds(width, context)
        / parts.pass_seconds(1, context)
        for width in parts.passes
      },
    },
    "temperatures": found,
    "samples": lines,
  }


def _samples(target, engine, draft, plan, context) -> list[dict[str, Any]]:
  subject = costs.Subject(
    mode=_MODE,
    engine=engine,
    params=Params(target.params, draft),
    sampling=plan.law(plan.temperatures[-1]),
  )
  sampler = costs.Sampler(
    [subject],
    context_lengths=(context,),
    widths=sorted({1, *engine.drafter.widths, *(size + 1 for size in SIZES)}),
  )
  sampler.compile()
  return [line for _ in range(_SAMPLES) for line in sampler.sample()]


def _level_cost(parts: Costs, context: int, engine: Engine) -> float:
  """Of one level of drafting, over a one-token pass of the target."""
  most = max(parts.drafts[False])
  whole = parts.draft_seconds(most, context)
  return whole / engine.drafter.max_depth / parts.pass_seconds(1, context)


def _figures(
  ranks: Ranks, parts: Costs, context: int, engine: Engine
) -> dict[str, Any]:
  depth, most = engine.drafter.max_depth, max(SIZES) + 1
  p = ranks.acceptance
  tokens = np.asarray(trees.most_tokens(p, most, depth))
  one = parts.pass_seconds(1, context)
  widths = sorted(parts.passes)
  at = [parts.pass_seconds(width, context) / one for width in widths]
  verify = np.interp(np.arange(most + 1), widths, at)
  level = _level_cost(parts, context, engine)
  found = []
  for size in SIZES:
    shape = _shape(p, size + 1, depth)
    nodes, deep = (shape.num_nodes, shape.max_depth) if shape else (0, 0)
    expected = float(tokens[depth, size + 1])
    found.append(
      {
        "num_nodes": nodes,
        "max_depth": deep,
        "tokens": expected,
        "predicted_speedup": expected / (verify[nodes + 1] + deep * level),
        "tree": shape.name if shape else None,
      }
    )
  best_depth, slots, speedup = trees.best_size(tokens, level, verify)
  return {
    "ranks": [
      {
        "tried": int(tried),
        "kept": int(kept),
        "acceptance": float(chance),
        "share": float(share),
      }
      for tried, kept, chance, share in zip(
        ranks.tried, ranks.kept, ranks.conditional, np.asarray(p), strict=True
      )
    ],
    "trees": found,
    "best": _best(p, int(best_depth), int(slots), float(speedup)),
  }


def _best(p, depth: int, slots: int, speedup: float) -> dict[str, Any]:
  """The tree that suits the machine; none where plain decoding is as fast."""
  shape = _shape(p, slots, depth)
  if shape is None:
    return {"num_nodes": 0, "predicted_speedup": 1.0, "tree": None}
  return {
    "num_nodes": shape.num_nodes,
    "predicted_speedup": speedup,
    "tree": shape.name,
  }


def _shape(p, slots: int, depth: int) -> Topology | None:
  """The best tree, None where it is the root alone."""
  parents = trees.best_tree(p, slots, depth).parents.tolist()
  return of_parents(parents) if parents else None
