"""A folder that appears whole or not at all."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path

from specjax.checkpoints.base import CheckpointError


@contextlib.contextmanager
def new_folder(path: Path) -> Generator[Path]:
  """A folder to fill, which is renamed to `path` when the block is done.

  Who may read it and its files is what the umask says, though temporary folders
  and safetensors' files are made for their owner alone.

  Raises:
    CheckpointError: `path` exists or cannot be written.
  """
  path = path.absolute()
  if path.exists():
    raise CheckpointError(f"{path} exists; save to a new folder")
  folder, closed = None, _umask()
  try:
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    yield folder
    for file in folder.iterdir():
      if file.is_file():
        file.chmod(0o666 & ~closed)
    folder.chmod(0o777 & ~closed)
    os.rename(folder, path)
  except OSError as error:
    raise CheckpointError(f"cannot save {path}: {error}") from error
  finally:
    if folder is not None:
      shutil.rmtree(folder, ignore_errors=True)


def _umask() -> int:
  mask = os.umask(0)
  os.umask(mask)
  return mask
