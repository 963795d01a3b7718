"""From settings to a folder of results."""

import contextlib
import dataclasses
import shlex
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path

import jax
from absl import flags

from experiments import benchmark_show, memory, setup
from experiments.benchmark_settings import Settings
from experiments.command import INTERRUPTED
from specjax import checkpoints
from specjax.checkpoints.loaded import LoadedModel, load_model
from specjax.evaluation import peers
from specjax.evaluation.costs import run_costs
from specjax.evaluation.questions import Question
from specjax.evaluation.runs import (
  benchmark,
  decoders,
  differences,
  environment,
  grid,
  run_folder,
)
from specjax.evaluation.runs import traces as tracing
from specjax.evaluation.runs.conversations import wants_chat
from specjax.evaluation.runs.run_folder import RunFolder
from specjax.text import Tokenizer

FLAGS = flags.FLAGS


def run(
  settings: Settings,
  questions: Sequence[Question],
  output: str,
  *,
  overwrite: bool,
  traces: int,
  as_json: bool,
) -> int:
  """Measures what the folder lacks and writes its results; the exit status.

  Raises:
    ValueError: in one line: before a model is loaded for what is known then.
  """
  cells = grid.expand(_grid(settings))
  source = checkpoints.resolve(settings.model)
  _check_peers(settings)
  setup.use_compilation_cache(FLAGS.compilation_cache)
  config = settings.record(questions)
  with (
    run_folder.claim(
      Path(output),
      config,
      environment.machine(),
      overwrite=overwrite,
      command=_command(),
    ) as folder,
    contextlib.ExitStack() as stack,
    _memory_said(settings),
  ):
    setup.report(f"loading {source.name}")
    target = load_model(source, settings.dtype)
    if target.tokenizer is None:
      raise ValueError(f"{target.name} has no tokenizer to read prompts with")
    tokenizer = target.tokenizer
    methods = grid.resolve(cells, target)
    plan = _plan(settings, questions, target, tokenizer, config)
    capacity = plan.capacity(tokenizer, target.model.max_positions)
    own = [decoders.OwnDecoder(target, m, capacity) for m in methods]
    others = _peers(stack, settings, target, tokenizer, capacity)
    run = benchmark.Run(
      plan,
      [*own, *others],
      folder,
      tokenizer,
      between=_sampler(settings, plan, own, folder, tokenizer),
    )
    memory.reuse_freed_memory()
    interrupted = _measure(run, own, target, folder, traces)
    if run.done:
      benchmark_show.report(output, as_json=as_json)
  if interrupted:
    setup.report(
      f"interrupted; {run.done} of {run.total} answers; run the same command"
      " to go on"
    )
    return INTERRUPTED
  return 0


def _command() -> str:
  return f"python -m experiments.benchmark {shlex.join(sys.argv[1:])}".strip()


@contextlib.contextmanager
def _memory_said(settings: Settings) -> Generator[None]:
  """Says in one line what to lower where memory runs out."""
  try:
    yield
  except (MemoryError, jax.errors.JaxRuntimeError) as error:
    if not decoders.out_of_memory(error):
      raise
    raise ValueError(
      "out of memory; answers so far are kept. Lower max_new_tokens"
      f" ({settings.max_new_tokens}), leave out the longest prompts, or take a"
      " smaller --model or --dtype=bfloat16"
    ) from error


def _grid(settings: Settings) -> grid.Grid:
  return grid.Grid(
    drafters=settings.drafters,
    rules=settings.rules,
    num_speculative_tokens=settings.num_speculative_tokens,
    temperatures=settings.temperatures,
    top_k=settings.top_k,
    top_p=settings.top_p,
    min_p=settings.min_p,
    lenience=settings.lenience,
    draft_model=settings.draft_model,
    draft_layers=settings.draft_layers,
    target=settings.model,
  )


def _check_peers(settings: Settings) -> None:
  for name in settings.peers:
    if (reason := peers.available(name)) is not None:
      raise ValueError(reason)
  filtered = (settings.top_k, settings.top_p, settings.min_p) != (0, 1, 0)
  if settings.peers and filtered:
    raise ValueError("peers draw unfiltered: leave top_k, top_p and min_p out")


def _plan(
  settings: Settings,
  questions: Sequence[Question],
  target: LoadedModel,
  tokenizer: Tokenizer,
  config: dict,
) -> benchmark.Plan:
  return benchmark.Plan(
    questions=tuple(questions),
    max_new_tokens=settings.max_new_tokens,
    repeats=settings.repeats,
    seed=settings.seed,
    chat=wants_chat(tokenizer, settings.chat),
    environment=environment.describe(
      target.name, target.dtype, config, settings.route
    ),
  )


def _peers(
  stack: contextlib.ExitStack,
  settings: Settings,
  target: LoadedModel,
  tokenizer: Tokenizer,
  capacity: int,
) -> Iterator[decoders.PeerDecoder]:
  for name in settings.peers:
    setup.report(f"starting {name}")
    drafts = peers.kind(name).drafter == "model"
    peer = stack.enter_context(
      peers.start(
        name,
        model=settings.model,
        dtype=target.dtype,
        draft_model=settings.draft_model if drafts else None,
        draft_layers=settings.draft_layers if drafts else None,
        max_context=capacity,
      )
    )
    for temperature in settings.temperatures:
      mode = peer.mode(temperature)
      law = grid.law_name(dataclasses.asdict(mode))
      mode = dataclasses.replace(mode, name=mode.name + law)
      yield decoders.PeerDecoder(peer, mode, tokenizer)


def _sampler(
  settings: Settings,
  plan: benchmark.Plan,
  own: Sequence[decoders.OwnDecoder],
  folder: RunFolder,
  tokenizer: Tokenizer,
) -> Callable[[], None] | None:
  if not settings.costs:
    return None
  return run_costs.sampler(
    own,
    folder,
    shortest=plan.shortest(tokenizer),
    rounds=settings.cost_rounds,
  )


def _measure(
  run: benchmark.Run,
  own: Sequence[decoders.OwnDecoder],
  target: LoadedModel,
  folder: RunFolder,
  traces: int,
) -> bool:
  """Whether it was interrupted."""
  try:
    with benchmark_show.progress(run) as shown:
      for answer in run:
        shown(answer)
    setup.report("looking at differences and tracing")
    answers = folder.answers()
    differences.write(folder.path, target, answers, run.prompt_of)
    tracing.write(run, own, folder, traces)
  except KeyboardInterrupt:
    return True
  return False
