"""What a trained drafter is worth in the real loop, on prompts held out."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from specjax import acceptance, api, metrics
from specjax.api.lanes import bucket
from specjax.api.pairing import default_rule
from specjax.checkpoints.loaded import LoadedModel
from specjax.evaluation.acceptance import alpha
from specjax.evaluation.costs.timed import Desk
from specjax.evaluation.figures import statistics
from specjax.sampling import make_sampling
from specjax.types import Drafter, Params

_SPARE = 2  # tokens of the buffers past the longest text


@dataclasses.dataclass(frozen=True)
class Trial:
  """How a drafter is tried.

  Attributes:
    temperatures: each is a part of its own.
    max_new_tokens: of an answer.
    max_batch: prompts at a time; changes no token.
    alpha: whether to force the answers through the drafter too, for its alpha.
    seed: of the draws.
  """

  temperatures: tuple[float, ...] = (0.0, 1.0)
  max_new_tokens: int = 96
  max_batch: int = 8
  alpha: bool = True
  seed: int = 0

  def __post_init__(self):
    for name in ("max_new_tokens", "max_batch"):
      if (value := getattr(self, name)) < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")
    if not self.temperatures:
      raise ValueError("temperatures must name one temperature or more")
    api.Sampling(temperature=list(self.temperatures))


def in_the_loop(
  target: LoadedModel,
  drafter: Drafter,
  draft: PyTree,
  prompts: Sequence[Sequence[int]],
  trial: Trial,
  say: Callable[[str], None] = lambda text: None,
) -> list[dict[str, Any]]:
  """Decodes the prompts with the drafter, at every temperature.

  Args:
    draft: `Params.draft`, as a trainee's `draft_params` gives it.
    prompts: token ids, none of which was trained on.

  Returns:
    a dict a temperature: temperature, rule, lossless, prompts, new_tokens,
    rounds, mean_acceptance_length with its interval over prompts (low, high),
    draft_acceptance_rate, acceptance_per_position, by_prompt (emitted and
    rounds of each, in order) and, on request, alpha, see `alpha.Alpha`.

  Raises:
    ValueError: in one line, from `api.generate`.
  """
  found = []
  for temperature in trial.temperatures:
    output = api.generate(
      target,
      [list(prompt) for prompt in prompts],
      drafter=drafter,
      draft=draft,
      sampling=api.Sampling(temperature=temperature),
      max_new_tokens=trial.max_new_tokens,
      key=jax.random.key(trial.seed),
      max_batch=trial.max_batch,
    )
    one = {
      "temperature": temperature,
      "rule": output.rule,
      "lossless": output.lossless,
      "prompts": len(prompts),
      **_figures(output.row_stats),
    }
    say(
      f"temperature {temperature:g}: {one['mean_acceptance_length']:.2f} tokens"
      f" a round on {len(prompts)} prompts"
    )
    if trial.alpha:
      one["alpha"] = force(
        target, drafter, draft, prompts, output.tokens, temperature, trial.seed
      ).to_json()
      say(f"temperature {temperature:g}: alpha {one['alpha']['alpha']:.3f}")
    found.append(one)
  return found


def _figures(rows: Sequence[metrics.Stats]) -> dict[str, Any]:
  pooled = metrics.pool(list(rows))
  emitted = [row.emitted for row in rows]
  rounds = [row.rounds for row in rows]
  nothing, one = [0] * len(rows), [1] * len(rows)
  length = statistics.rate_difference(emitted, rounds, nothing, one)
  return {
    "new_tokens": pooled.emitted,
    "rounds": pooled.rounds,
    "mean_acceptance_length": pooled.mean_acceptance_length,
    # A round emits a token at least, whatever two prompts may suggest.
    "low": None if length.low is None else max(length.low, 1.0),
    "high": length.high,
    "draft_acceptance_rate": pooled.draft_acceptance_rate,
    "acceptance_per_position": (
      list(pooled.acceptance_per_position) if pooled.drafting_rounds else []
    ),
    "by_prompt": [
      {"emitted": row.emitted, "rounds": row.rounds} for row in rows
    ],
  }


def force(
  target: LoadedModel,
  drafter: Drafter,
  draft: PyTree,
  prompts: Sequence[Sequence[int]],
  answers: Sequence[Sequence[int]],
  temperature: float,
  seed: int,
) -> alpha.Alpha:
  """Alpha by teacher forcing on texts that the target wrote.

  Args:
    answers: to each prompt, at this temperature.

  Raises:
    ValueError: no text to force.
  """
  texts = [[*p, *a] for p, a in zip(prompts, answers, strict=True)]
  capacity = bucket(max(map(len, texts)) + _SPARE)
  desk = Desk(target.model, target.params, capacity=capacity, new_tokens=1)
  params = Params(target.params, draft)
  rule = default_rule(target.model, drafter, params)
  acceptance.check_pair(drafter, rule)
  engine = desk.engine(drafter, rule)
  law = make_sampling(1, temperature=temperature)
  parts = []
  for prompt, text in zip(prompts, texts, strict=True):
    rows = desk.read(engine, draft, list(prompt), law, seed)
    whole = np.zeros((1, capacity), np.int32)
    whole[0, : len(text)] = text
    rows = dataclasses.replace(rows, tokens=jnp.asarray(whole))
    until = jnp.full((1,), len(text), jnp.int32)
    parts.append(alpha.force(engine, params, rows, until))
  return alpha.summarize(*parts)
