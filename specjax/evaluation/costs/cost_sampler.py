"""Takes one sample of every cost of a round at a time, for runs that interleave
them with what they measure.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from specjax import decoding
from specjax import sampling as laws
from specjax.checkpoints.loaded import LoadedModel
from specjax.constraints import Stops
from specjax.control import Constant
from specjax.evaluation import timing
from specjax.evaluation.costs import cost_parts
from specjax.passes import Engine
from specjax.types import Cache, Drafter, Params, Rows, Rule, Sampling

_TIMES = 2  # runs of a part in a call


@dataclasses.dataclass(frozen=True)
class Subject:
  """A mode whose drafting is to be timed.

  Attributes:
    mode: its name.
    engine, params, sampling: as it decodes; `sampling` of one row.
    counts: drafted counts to time; None is every one up to the largest. The
      others are read off straight lines.
  """

  mode: str
  engine: Engine
  params: Params
  sampling: Sampling
  counts: tuple[int, ...] | None = None

  @property
  def drafted(self) -> tuple[int, ...]:
    depth = self.engine.drafter.max_depth
    return tuple(range(depth + 1)) if self.counts is None else self.counts


def make_subject(
  mode: str,
  target: LoadedModel,
  drafter: Drafter,
  draft: LoadedModel | PyTree,
  rule: Rule,
  counts: tuple[int, ...] | None = None,
  law: Sampling | None = None,
) -> Subject:
  """A subject of what `specjax.generate` takes.

  Args:
    mode: its name.
    target, drafter, draft, rule: as for `generate`.
    counts: drafted counts to time.
    law: sampling of one row; None is greedy.
  """
  weights = draft.params if isinstance(draft, LoadedModel) else draft
  ends = target.tokenizer.eos_ids if target.tokenizer else ()
  return Subject(
    mode=mode,
    engine=Engine(target.model, drafter, rule, Constant(), Stops(ends)),
    params=Params(target.params, weights),
    sampling=laws.make_sampling(1) if law is None else law,
    counts=counts,
  )


class Sampler:
  """Takes one sample of every cost at a time, so that a run interleaves them.

  All subjects share one target. Every sample runs on a state made once: a text
  of random tokens that the draft has read, and a target cache of that length.
  What the cache holds does not change what a pass costs.
  """

  def __init__(
    self,
    subjects: Sequence[Subject],
    *,
    context_lengths: Sequence[int] = (64, 448),
    widths: Sequence[int] = (),
    capacity: int | None = None,
    rounds: int = 0,
  ):
    """
    Args:
      subjects: modes of one target.
      context_lengths: committed tokens, 2 or more each.
      widths: of target passes, beside all that the subjects' drafters compile.
      capacity: of the buffers; None is what is needed.
      rounds: so many whole rounds a sample, for the share of bookkeeping; 0 is
        none, and saves compiling the loop.

    Raises:
      ValueError: no subject, or contexts that do not fit.
    """
    if not subjects:
      raise ValueError("there is no mode to measure the costs of")
    self._subjects, self._rounds = tuple(subjects), rounds
    self._contexts = tuple(sorted(set(context_lengths)))
    drafters = [subject.engine.drafter for subject in subjects]
    every = {1, *widths, *(w for d in drafters for w in d.widths)}
    self._widths = tuple(sorted(every))
    burst = 1 + max(d.max_depth for d in drafters)
    needed = max(self._contexts) + (max(rounds, _TIMES) + 2) * burst
    self._capacity = -(-needed // 64) * 64 if capacity is None else capacity
    if min(self._contexts) < 2 or needed > self._capacity:
      raise ValueError(
        f"contexts of {self._contexts} tokens do not fit buffers of"
        f" {self._capacity}: {needed} are needed, and a context has 2 or more"
      )
    self._calls: list[tuple[dict[str, Any], Any]] = []

  def compile(self) -> None:
    """Makes the states and runs everything once; `sample` calls it too."""
    if self._calls:
      return
    model = self._subjects[0].engine.model
    for context in self._contexts:
      cache = cost_parts.filled(model, self._capacity, context - 1)
      for width in self._widths:
        label = {"part": "pass", "width": width, "context": context}
        self._calls.append((label, self._pass_call(width, cache)))
      for subject in self._subjects:
        self._calls += self._draft_calls(subject, cache, context)
    for _, call in self._calls:
      call()

  def sample(self) -> list[dict[str, Any]]:
    """One line for each cost, in seconds: of one pass, of one round's drafting,
    and of the rounds that a line lists.
    """
    self.compile()
    return [{**label, **call()} for label, call in self._calls]

  def _pass_call(self, width: int, cache: Cache):
    engine, params = self._subjects[0].engine, self._subjects[0].params
    tokens = cost_parts.text(engine.model, width)

    def run(times: int) -> float:
      count = jnp.asarray(times, jnp.int32)
      return timing.seconds(
        lambda: cost_parts.run_passes(
          engine.model, params.target, tokens, cache, count
        )
      )

    return lambda: {"seconds": _each(run)}

  def _draft_calls(self, subject: Subject, cache: Cache, context: int):
    """Labels and calls of one subject: of its drafting, and of whole rounds."""
    engine, params = subject.engine, subject.params
    rows, draft = cost_parts.prefilled(
      engine, params, subject.sampling, cache, context
    )
    states = {False: (rows, draft)}
    if _is_chain(engine.drafter) and jax.tree.leaves(draft):
      once = jnp.ones((), jnp.int32)
      keep = jnp.ones((1,), bool)
      length, after, _ = cost_parts.run_drafts(
        engine, params, rows, _copy(draft), keep, once
      )
      longer = dataclasses.replace(rows, length=length)
      states[True] = (longer, after)

    def drafting(rows: Rows, draft: PyTree, behind: bool, budget: int):
      rows = dataclasses.replace(rows, max_draft=cost_parts.one(budget))
      keep = jnp.full((1,), behind)

      def run(times: int) -> float:
        count = jnp.asarray(times, jnp.int32)
        fresh = jax.block_until_ready(_copy(draft))
        return timing.seconds(
          lambda: cost_parts.run_drafts(
            engine, params, rows, fresh, keep, count
          )
        )

      return lambda: {"seconds": _each(run)}

    calls = [
      (
        {
          "part": "draft",
          "mode": subject.mode,
          "drafted": drafted,
          "behind": behind,
          "context": context,
        },
        drafting(*state, behind, drafted),
      )
      for behind, state in states.items()
      for drafted in subject.drafted
    ]
    if self._rounds:
      label = {"part": "round", "mode": subject.mode, "context": context}
      rows = dataclasses.replace(rows, draft=draft)
      calls.append((label, self._round_call(subject, rows)))
    return calls

  def _round_call(self, subject: Subject, rows: Rows):
    count = jnp.asarray(self._rounds, jnp.int32)
    one = jnp.ones((), jnp.int32)
    done: list[Rows] = []

    def run(fresh: Rows):
      done[:] = [
        decoding.decode(subject.engine, subject.params, fresh, count, one)
      ]
      return done

    def call():
      fresh = jax.block_until_ready(_copy(rows))
      spent = timing.seconds(lambda: run(fresh))
      ran = int(done[0].rounds[0])
      history = np.asarray(done[0].history)[0, :ran].tolist()
      return {"seconds": spent, "rounds": history}

    return call


def _copy(tree: PyTree) -> PyTree:
  return jax.tree.map(lambda x: x.copy(), tree)


def _is_chain(drafter: Drafter) -> bool:
  return drafter.num_nodes == drafter.max_depth > 0


def _each(run: Callable[[int], float]) -> float:
  """Seconds of one run inside a call of several; noise may make it negative."""
  empty = run(0)
  return (run(_TIMES) - empty) / _TIMES
