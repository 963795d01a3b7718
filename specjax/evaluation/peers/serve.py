"""The child's side: loads a peer, then answers a line at a time.

python -m specjax.evaluation.peers.serve KIND SETTINGS  (both JSON)
"""

import dataclasses
import importlib
import json
import os
import sys
from typing import Any, TextIO

from specjax.evaluation.peers.registry import (
  Decoder,
  Kind,
  Request,
  Settings,
)

_WARM = Request((0, 1, 2, 3, 2, 3), 4, 0.0, 0, ())


def main(arguments: list[str]) -> int:
  """Serves until the parent closes the pipe; the status is 1 for an error.

  Standard output carries the protocol alone: what libraries print there goes
  to standard error.
  """
  output = os.fdopen(os.dup(1), "w", encoding="utf-8")
  os.dup2(2, 1)
  kind, settings = (json.loads(argument) for argument in arguments)
  try:
    module = importlib.import_module(kind["module"])
    decoder = module.load(Kind(**kind), Settings(**settings))
    decoder.decode(_WARM)
  except Exception as error:  # whatever a foreign library raises
    _send(output, {"error": _line(error)})
    return 1
  _send(output, {"versions": decoder.versions})
  serve(decoder, sys.stdin, output)
  return 0


def serve(decoder: Decoder, requests: TextIO, output: TextIO) -> None:
  """Answers requests until there are no more."""
  for line in requests:
    entry = json.loads(line)
    for key in ("prompt_ids", "eos_ids"):
      entry[key] = tuple(entry[key])
    try:
      answer = decoder.decode(Request(**entry))
    except Exception as error:  # the next request may be sound
      _send(output, {"error": _line(error)})
    else:
      _send(output, {"answer": dataclasses.asdict(answer)})


def _send(output: TextIO, message: dict[str, Any]) -> None:
  output.write(json.dumps(message) + "\n")
  output.flush()


def _line(error: Exception) -> str:
  return f"{type(error).__name__}: {' '.join(str(error).split())}"


if __name__ == "__main__":
  try:
    sys.exit(main(sys.argv[1:]))
  except BrokenPipeError:  # the parent is gone
    os._exit(1)
