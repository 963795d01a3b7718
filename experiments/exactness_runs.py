"""The two parts of the exactness command: sampled laws, and greedy outputs."""

import dataclasses
import functools
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from absl import flags

from experiments import exactness_show, known_targets, setup
from specjax import acceptance, api, sampling
from specjax.api.settings import encode_prompts
from specjax.evaluation import exactness, questions
from specjax.evaluation.runs import conversations
from specjax.testing import oracle, runs
from specjax.types import Drafter, Model, Params, Rule

FLAGS = flags.FLAGS

# It ends inside a repeat that went on in more than one way.
REPEATS = (
  "The red door is open. The blue door is shut. The red door is shut. The blue"
  " door is open. The red door is open and the blue door is shut. The red door"
)
_DRAFTED = 2  # tokens, so that a few tokens take several rounds
_KNOWN_SIZES = dict(samples=4096, seeds=100, rows=4096)
_REAL_SIZES = dict(samples=256, seeds=8, rows=64)
_GREEDY_ROWS = 4


@dataclasses.dataclass(frozen=True)
class Subject:
  """What is tested."""

  name: str
  model: Model
  drafter: Drafter
  params: Params
  rule: Rule
  prompt: Sequence[int]


def laws(
  prompt: str | None,
  chat: bool | None,
  *,
  length: int,
  sizes: dict[str, int],
  as_json: bool,
  folder: Path | None,
) -> int:
  """Samples against the exact law; returns the exit status.

  Args:
    prompt: None is one with repeats.
    chat: whether the prompt goes through the chat template.
    length: tokens of the joint law.
    sizes: samples (of a seed), seeds and rows (at a time), where given.
    as_json: print one JSON object instead of tables.
    folder: for the figures and the plot.
  """
  begin = time.perf_counter()
  known = FLAGS.model in known_targets.NAMES
  subject = _known(prompt) if known else _real(prompt, chat)
  sizes = (_KNOWN_SIZES if known else _REAL_SIZES) | sizes
  needed = len(subject.prompt) + length + subject.drafter.max_depth
  if needed > subject.model.max_positions:
    raise ValueError(
      f"prompt, --length and draft need {needed} positions, {subject.name} has"
      f" {subject.model.max_positions}: shorten the prompt"
    )
  setting = oracle.Setting(
    FLAGS.temperature, FLAGS.top_k, FLAGS.top_p, FLAGS.min_p
  )
  setup.report("enumerating the law")
  law = exactness.enumerate_law(
    subject.model,
    subject.params.target,
    subject.prompt,
    length,
    functools.partial(oracle.law_of, setting=setting),
  )
  asked = sampling.make_sampling(1, **dataclasses.asdict(setting))

  def sampler(drafter: Drafter | None, rule: Rule | None):
    engine = runs.make_engine(subject.model, drafter, rule)
    return exactness.Sampler(
      engine, subject.params, subject.prompt, asked, length, sizes["rows"]
    )

  evidence = exactness.measure(
    {
      exactness.TARGET: sampler(None, None),
      exactness.SPECULATIVE: sampler(subject.drafter, subject.rule),
      exactness.CONTROL: sampler(
        subject.drafter, exactness.Redrawn(subject.rule)
      ),
    },
    law,
    claimed=acceptance.is_lossless(subject.drafter, subject.rule),
    samples=sizes["samples"],
    seeds=sizes["seeds"],
    seed=FLAGS.seed,
    report=setup.report,
  )
  seconds = time.perf_counter() - begin
  record = {
    **_labels(subject.name, subject.drafter, subject.rule),
    "prompt_tokens": list(subject.prompt),
    "sampling": dataclasses.asdict(setting),
    **evidence.to_json(),
    "seconds": seconds,
  }
  title = (
    f"{record['drafter']} with {subject.rule.name} on {subject.name}, T"
    f" {setting.temperature:g}, top-k {setting.top_k}, top-p {setting.top_p:g}"
  )
  _write(folder, record)
  if folder is not None:
    from specjax.evaluation.exactness import plot

    plot.draw(evidence, title, folder / "exactness.png")
  if as_json:
    print(json.dumps(record))
  else:
    exactness_show.evidence(evidence, title, seconds)
  return 0 if record["as_claimed"] else 1


def greedy(
  prompts: Sequence[str],
  path: str | None,
  chat: bool | None,
  *,
  as_json: bool,
  folder: Path | None,
) -> int:
  """Greedy outputs against plain decoding's; returns the exit status.

  Args:
    prompts, path: of --prompt and --prompt_file; by default one with repeats.
    chat: whether prompts go through the chat template.
    as_json: print one JSON object instead of a table.
    folder: for the figures.

  Raises:
    ValueError: a known target, a fault in the flags.
  """
  if FLAGS.model in known_targets.NAMES:
    raise ValueError(
      f"--greedy compares real models; for --model={FLAGS.model} run python -m"
      " specjax.testing"
    )
  given = prompts or path is not None
  asked = questions.read(prompts or () if given else (REPEATS,), path)
  plan = setup.make_plan()
  if plan.drafter == "none":
    raise ValueError(known_targets.NO_DRAFTER)
  begin = time.perf_counter()
  target, methods = plan.load()
  ids = _prompts(target, asked, chat if given else False)
  options: dict[str, Any] = dict(
    max_new_tokens=FLAGS.max_new_tokens, max_batch=_GREEDY_ROWS
  )
  setup.report(f"decoding {len(ids)} prompts, plain")
  plain = api.generate(target, ids, **options)
  setup.report(f"decoding {len(ids)} prompts with {plan.drafter}")
  other = api.generate(target, ids, **options, **methods)
  setup.report("looking at differences")
  identity = exactness.compare(
    target.model,
    target.params,
    [
      exactness.Pair(
        f"prompt {question.labels.get('question_id', number)}", *three
      )
      for number, (question, *three) in enumerate(
        zip(asked, ids, plain.tokens, other.tokens, strict=True), 1
      )
    ],
  )
  claimed = other.lossless
  ok = not (claimed and identity.faults)
  seconds = time.perf_counter() - begin
  record = {
    **_labels(target.name, methods["drafter"], other.rule),
    "as_claimed": ok,
    "lossless": claimed,
    **identity.to_json(),
    "seconds": seconds,
  }
  _write(folder, record)
  if as_json:
    print(json.dumps(record))
  else:
    exactness_show.identity(identity, claimed, seconds)
  return 0 if ok else 1


def _prompts(target, asked, chat: bool | None) -> list[list[int]]:
  """Ids of first turns."""
  chat = conversations.wants_chat(target.tokenizer, chat)
  prompts = [
    conversations.prompt(target.tokenizer, question, [], chat)
    for question in asked
  ]
  return encode_prompts(target, prompts, chat)


def _known(prompt: str | None) -> Subject:
  if prompt is not None:
    raise ValueError(f"--model={FLAGS.model} has a prompt of its own")
  depth = FLAGS.num_speculative_tokens
  built = known_targets.build(
    FLAGS.model, FLAGS.drafter, _DRAFTED if depth is None else depth
  )
  setup.use_compilation_cache(FLAGS.compilation_cache)
  return Subject(FLAGS.model, *built, prompt=known_targets.PROMPT)


def _real(prompt: str | None, chat: bool | None) -> Subject:
  if FLAGS.num_speculative_tokens is None and FLAGS.speculative_config is None:
    if FLAGS.drafter != "none":
      FLAGS.num_speculative_tokens = _DRAFTED
  plan = setup.make_plan()
  if plan.drafter == "none":
    raise ValueError(known_targets.NO_DRAFTER)
  target, methods = plan.load()
  drafter = methods["drafter"]
  params, rule = setup.judged_by(target, methods)
  text = REPEATS if prompt is None else prompt
  ids = encode_prompts(target, [text], False if prompt is None else chat)[0]
  return Subject(target.name, target.model, drafter, params, rule, ids)


def _labels(model: str, drafter: Drafter, rule: Rule | str) -> dict[str, Any]:
  name = type(drafter).__name__
  return {
    "model": model,
    "drafter": f"{name} k={drafter.max_depth}",
    "rule": rule if isinstance(rule, str) else rule.name,
    "seed": FLAGS.seed,
  }


def _write(folder: Path | None, record: dict[str, Any]) -> None:
  if folder is not None:
    text = json.dumps(record, indent=1)
    (folder / "exactness.json").write_text(text + "\n")
