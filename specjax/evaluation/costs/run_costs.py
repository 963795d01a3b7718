"""What a round is made of, timed in the same run as the answers."""

from collections.abc import Callable, Sequence

from specjax.api.lanes import bucket
from specjax.evaluation import records
from specjax.evaluation.costs import cost_sampler
from specjax.evaluation.runs.decoders import OwnDecoder
from specjax.evaluation.runs.run_folder import COSTS, RunFolder

_SPARE = 4  # rounds for which the buffers have room beside those asked for


def sampler(
  decoders: Sequence[OwnDecoder],
  folder: RunFolder,
  *,
  shortest: int,
  rounds: int = 0,
) -> Callable[[], None]:
  """What adds a sample of every cost to costs.jsonl each time it is called.

  The first call compiles. Passes are timed at two lengths of text, the
  shortest and nearly the longest of the run, in buffers of the run's size.

  Args:
    decoders: the modes; all have one target and one capacity.
    folder: of the run.
    shortest: tokens of the shortest prompt.
    rounds: so many whole rounds are timed too; 0 is none.
  """
  target, capacity = decoders[0].target, decoders[0].capacity
  depth = max(d.method.drafter.max_depth for d in decoders)
  size = min(bucket(capacity), target.model.max_positions)
  longest = min(capacity, size - (rounds + _SPARE) * (depth + 1))
  subjects = [
    cost_sampler.make_subject(
      decoder.mode.name,
      target,
      decoder.method.drafter,
      decoder.method.draft,
      decoder.method.rule,
      law=decoder.method.sampling.rows(1),
    )
    for decoder in decoders
  ]
  made = cost_sampler.Sampler(
    subjects,
    context_lengths=sorted({max(2, min(shortest, longest)), max(2, longest)}),
    capacity=size,
    rounds=rounds,
  )

  def sample() -> None:
    for line in made.sample():
      records.append(folder.path / COSTS, line)

  return sample
