"""The JSON files of a training's folder."""

import json
import os
from pathlib import Path
from typing import Any

from specjax.evaluation.runs import run_folder

SUMMARY = run_folder.SUMMARY
EVALUATION = "evaluation.json"


def write(path: Path, value: Any) -> None:
  """Whole or not at all, so that a file that is there is finished."""
  beside = path.with_suffix(".tmp")
  beside.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
  os.replace(beside, path)


def read(path: Path) -> Any:
  """What `write` wrote."""
  return json.loads(path.read_text(encoding="utf-8"))
