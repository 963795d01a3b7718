"""The parent's side: a process, and a line of JSON a request or answer."""

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from specjax import checkpoints
from specjax.checkpoints.base import as_dtype
from specjax.evaluation import records
from specjax.evaluation.peers import registry
from specjax.evaluation.peers.registry import (
  Kind,
  PeerAnswer,
  Request,
  Settings,
)

_PATIENCE_S = 5.0


def start(
  name: str,
  *,
  model: str = checkpoints.DEFAULT,
  dtype: str = "float32",
  threads: int | None = None,
  num_speculative_tokens: int | None = None,
  draft_model: str | None = None,
  draft_layers: int | None = None,
  max_context: int = 2048,
) -> "Peer":
  """Loads a peer in a process of its own; it waits idle between requests.

  Args:
    name: one of `NAMES`.
    threads: None is every core that this process may use.
    model, dtype, num_speculative_tokens, draft_model, draft_layers,
      max_context: see `Settings`; None is the peer's own.

  Raises:
    ValueError: unknown, not installed, or it could not load.
  """
  kind = registry.kind(name)
  if (reason := registry.available(name)) is not None:
    raise ValueError(reason)
  as_dtype(dtype)
  drafts = kind.drafter != records.PLAIN
  if num_speculative_tokens is None:
    num_speculative_tokens = kind.num_speculative_tokens
  if num_speculative_tokens < drafts or (num_speculative_tokens and not drafts):
    least = "at least 1" if drafts else "0"
    raise ValueError(
      f"num_speculative_tokens of {name} must be {least}, got"
      f" {num_speculative_tokens}"
    )
  if kind.drafter != "model" and (draft_model, draft_layers) != (None, None):
    raise ValueError(f"{name} takes no draft_model and no draft_layers")
  settings = Settings(
    model=model,
    dtype=dtype,
    threads=threads or len(os.sched_getaffinity(0)),
    num_speculative_tokens=num_speculative_tokens,
    draft_model=draft_model,
    draft_layers=draft_layers,
    max_context=max_context,
  )
  return Peer(kind, settings)


class Peer:
  """A peer's process. A context manager: leaving it ends the process."""

  def __init__(self, kind: Kind, settings: Settings):
    self.kind, self.settings = kind, settings
    self._log = tempfile.TemporaryFile()
    self._child = subprocess.Popen(
      command(kind, settings),
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
      stderr=self._log,
      env=_environment(settings.threads),
      text=True,
      encoding="utf-8",
      # Ctrl-C in a terminal reaches the parent alone, which ends the child.
      process_group=0,
    )
    try:
      self.versions: dict[str, str] = self._receive()["versions"]
    except BaseException:
      self.close()
      raise

  def decode(
    self,
    prompt_ids: Sequence[int],
    max_new_tokens: int,
    *,
    temperature: float = 0.0,
    seed: int = 0,
    eos_ids: Sequence[int] = (),
  ) -> PeerAnswer:
    """Decodes one prompt.

    Args:
      prompt_ids: at least one token id.
      max_new_tokens: at most so many.
      temperature: 0 is greedy; else the target's law at it, unfiltered.
      seed: of the draws.
      eos_ids: tokens that end an answer; none ignores them.

    Raises:
      ValueError: a prompt that does not fit, or the peer has died.
    """
    if not prompt_ids or max_new_tokens < 1:
      raise ValueError("a peer needs a prompt and room for one new token")
    room = self.settings.max_context
    if len(prompt_ids) + max_new_tokens > room:
      raise ValueError(
        f"{len(prompt_ids)} tokens of prompt and {max_new_tokens} new ones do"
        f" not fit {self.name}'s context of {room}: raise max_context"
      )
    request = Request(
      tuple(prompt_ids), max_new_tokens, temperature, seed, tuple(eos_ids)
    )
    self._send(dataclasses.asdict(request))
    return PeerAnswer.from_json(self._receive()["answer"])

  @property
  def name(self) -> str:
    """One of `NAMES`."""
    return self.kind.name

  @property
  def pid(self) -> int:
    """Of the process."""
    return self._child.pid

  def mode(self, temperature: float = 0.0) -> records.Mode:
    """How its answers are recorded."""
    return registry.mode(self.kind, temperature, self.settings)

  def close(self) -> None:
    """Ends the process, whatever it is doing; further calls do nothing."""
    self._child.kill()
    for pipe in (self._child.stdin, self._child.stdout, self._log):
      if pipe is not None:
        try:
          pipe.close()
        except BrokenPipeError:
          pass
    self._child.wait()

  def __enter__(self) -> "Peer":
    return self

  def __exit__(self, *_: object) -> None:
    self.close()

  def _send(self, message: dict[str, Any]) -> None:
    assert self._child.stdin is not None
    try:
      self._child.stdin.write(json.dumps(message) + "\n")
      self._child.stdin.flush()
    except (OSError, ValueError) as error:
      raise self._died() from error

  def _receive(self) -> dict[str, Any]:
    assert self._child.stdout is not None
    line = self._child.stdout.readline()
    if not line.endswith("\n"):
      raise self._died()
    message = json.loads(line)
    if "error" in message:
      raise ValueError(f"{self.name}: {message['error']}")
    return message

  def _died(self) -> ValueError:
    if self._log.closed:
      return ValueError(f"{self.name} is closed")
    try:
      status = self._child.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
      status = None
    self._log.seek(0)
    lines = self._log.read().decode(errors="replace").split("\n")
    last = next((line for line in reversed(lines) if line.strip()), "no reason")
    return ValueError(
      f"{self.name} died (status {status}): {' '.join(last.split())}"
    )


def command(kind: Kind, settings: Settings) -> list[str]:
  """What starts the child."""
  texts = [json.dumps(dataclasses.asdict(part)) for part in (kind, settings)]
  return [sys.executable, "-m", f"{__package__}.serve", *texts]


def _environment(threads: int) -> dict[str, str]:
  """The parent's, with as many threads."""
  return {
    **os.environ,
    "OMP_NUM_THREADS": str(threads),
    "MKL_NUM_THREADS": str(threads),
    "JAX_PLATFORMS": "cpu",
    "TOKENIZERS_PARALLELISM": "false",
  }
