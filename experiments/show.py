"""Runs questions through a plan and shows them as they come."""

import json
import sys
from collections.abc import Sequence
from typing import Any

from absl import flags

from experiments import answers, memory, round_trees, setup
from experiments.answers import Wave
from experiments.command import INTERRUPTED
from experiments.display import Screen
from specjax import api
from specjax.evaluation.questions import Question
from specjax.text import Tokenizer

FLAGS = flags.FLAGS


def run(
  plan: setup.Plan,
  questions: Sequence[Question],
  *,
  as_json: bool,
  compare: bool,
  chat: bool | None,
  logprobs: bool,
  max_batch: int,
  show_tree: bool = False,
) -> int:
  """The exit status. An interrupt shows what there is."""
  target, methods = plan.load()
  talk = answers.Conversations(
    target,
    questions,
    seed=FLAGS.seed,
    chat=chat,
    methods=methods,
    sampling=plan.sampling,
    max_new_tokens=FLAGS.max_new_tokens,
    stop=tuple(FLAGS.stop),
    logprobs=logprobs,
    max_batch=max_batch,
    record=show_tree,
  )
  labels = {
    "model": target.name,
    "dtype": target.dtype,
    "drafter": plan.drafter,
    "num_speculative_tokens": methods["drafter"].max_depth,
    "num_nodes": methods["drafter"].num_nodes,
    "options": plan.options,
    "seed": FLAGS.seed,
    "batch": max_batch,
  }
  for wave in talk.waves():
    if as_json:
      shown = _Records(questions, wave, labels, wait=compare)
    else:
      shown = _Texts(questions, wave, plan, streamed=max_batch == 1)
    interrupted = False
    try:
      setup.report("compiling")
      wave.stream.start()
      memory.reuse_freed_memory()
      for event in wave.stream:
        shown.event(event)
      if compare:
        setup.report("measuring plain decoding beside")
        for _ in wave.plain:
          pass
    except KeyboardInterrupt:
      interrupted = True
    if show_tree:
      _show_trees(wave, target.tokenizer)
    shown.finish(compare and not interrupted)
    if interrupted:
      setup.report("interrupted")
      return INTERRUPTED
  return 0


def _show_trees(wave: Wave, tokenizer: Tokenizer | None) -> None:
  """The trees of every row's rounds, after its number where there are more."""

  def spell(token: int) -> str:
    if tokenizer is None:
      return str(token)
    return tokenizer.piece(token, skip_special=False).decode(errors="replace")

  screen = Screen()
  prompts, traces = wave.stream.prompt_ids, wave.stream.traces
  for index, prompt, rounds in zip(wave.asked, prompts, traces, strict=True):
    head = f"\nprompt {index + 1}" if len(wave.asked) > 1 else ""
    screen.line(head)
    screen.trees(round_trees.draw(rounds, prompt[-1], spell))
  screen.line(round_trees.LEGEND)


class _Records:
  """One JSON object a result, in the order of the prompts.

  A comparison is known only at the end, so then all records wait for it.
  """

  def __init__(
    self,
    questions: Sequence[Question],
    wave: Wave,
    labels: dict[str, Any],
    wait: bool,
  ):
    self._questions, self._wave, self._labels = questions, wave, labels
    self._wait = wait
    self._done: set[int] = set()
    self._written = 0

  def event(self, event: api.Event) -> None:
    if event.finish_reason is None:
      return
    self._done.add(event.index)
    while not self._wait and self._written in self._done:
      self._write(compared=False)

  def finish(self, compared: bool) -> None:
    """Writes what is left, rows that an interrupt cut short included."""
    while self._written < len(self._wave.asked):
      self._write(compared)

  def _write(self, compared: bool) -> None:
    place, turn = self._written, self._wave.turn
    question = self._questions[self._wave.asked[place]]
    output = self._wave.stream.select([place])
    fields = {
      **question.labels,
      "index": self._wave.asked[place],
      "turn": turn,
      "prompt": question.turns[turn],
      **answers.record(output),
      **self._labels,
    }
    if compared:
      fields["plain"] = answers.compare(
        output, self._wave.plain.select([place])
      )
    print(_json(fields), flush=True)
    self._written += 1


def _json(fields: dict[str, Any]) -> str:
  """Escaped where standard output cannot hold a character."""
  text = json.dumps(fields, ensure_ascii=False)
  try:
    text.encode(sys.stdout.encoding or "utf-8")
  except UnicodeEncodeError:
    return json.dumps(fields)
  return text


class _Texts:
  """Text as it comes, where rows run one at a time, then a table."""

  def __init__(
    self,
    questions: Sequence[Question],
    wave: Wave,
    plan: setup.Plan,
    streamed: bool,
  ):
    self._questions, self._wave, self._plan = questions, wave, plan
    self._streamed = streamed
    self._screen = Screen()
    self._current: int | None = None

  def event(self, event: api.Event) -> None:
    if self._streamed:
      if event.index != self._current:
        self._head(event.index)
      self._screen.pieces(event)
      if event.finish_reason is not None:
        self._screen.line()
    elif event.finish_reason is not None:
      self._head(event.index)
      output = self._wave.stream.select([event.index])
      self._screen.line(output.texts[0])

  def finish(self, compared: bool) -> None:
    output = self._wave.stream.output
    place = self._current
    if self._streamed and place is not None:
      if output.finish_reasons[place] is None:
        self._screen.line()
    self._screen.line()
    greedy = self._plan.sampling.temperature == 0
    self._screen.figures(
      self._plan.drafter,
      output,
      self._wave.plain.output if compared else None,
      same_tokens=output.lossless and (greedy or output.rule == "exact_match"),
    )

  def _head(self, place: int) -> None:
    self._current = place
    if len(self._questions) > 1 or self._wave.turn:
      question = self._questions[self._wave.asked[place]]
      self._screen.line(f"\n> {question.turns[self._wave.turn]}")
