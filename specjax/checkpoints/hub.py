"""Repositories of the Hugging Face Hub, in that library's own cache."""

import dataclasses
from pathlib import Path

import huggingface_hub
from huggingface_hub import errors

from specjax.checkpoints.base import CheckpointError

_WANTED = ["*.json", "*.safetensors", "*.jinja"]
# Other layouts of the same weights lie in subfolders and consolidated files.
_UNWANTED = ["*/*", "consolidated*"]


@dataclasses.dataclass(frozen=True)
class HubFiles:
  """A repository's safetensors, or the one GGUF file named."""

  repo: str
  revision: str | None = None
  file: str | None = None


def fetch(source: HubFiles) -> Path:
  """Downloads, or finds in the cache, and returns the folder or file."""
  try:
    if source.file is not None:
      return Path(
        huggingface_hub.hf_hub_download(
          source.repo, source.file, revision=source.revision
        )
      )
    folder = Path(
      huggingface_hub.snapshot_download(
        source.repo,
        revision=source.revision,
        allow_patterns=_WANTED,
        ignore_patterns=_UNWANTED,
      )
    )
  except Exception as error:
    raise CheckpointError(_explain(source, error)) from error
  if not any(folder.glob("*.safetensors")):
    raise CheckpointError(
      f"{source.repo} has no safetensors; name one of its GGUF files as"
      f" {source.repo}:FILE.gguf"
    )
  return folder


def _explain(source: HubFiles, error: Exception) -> str:
  name = source.repo
  if isinstance(error, errors.GatedRepoError):
    return f"{name} is gated: accept its terms on the Hub and log in"
  if isinstance(error, errors.RevisionNotFoundError):
    return f"{name} has no revision {source.revision!r}"
  if isinstance(error, errors.RepositoryNotFoundError):
    return (
      f"there is no folder {name} here and no public repository {name} on the"
      " Hub; for a private one log in first"
    )
  if isinstance(error, errors.LocalEntryNotFoundError):
    return (
      f"{name} is not in the cache and the Hub cannot be reached: go online, or"
      " give a local folder"
    )
  if isinstance(error, errors.EntryNotFoundError):
    return f"{name} has no file {source.file!r}"
  if isinstance(error, (PermissionError, FileExistsError)):
    return f"cannot write the Hub's cache: {error}; set HF_HOME"
  first = (str(error).strip() or type(error).__name__).splitlines()[0]
  return f"cannot fetch {name}: {first}"
