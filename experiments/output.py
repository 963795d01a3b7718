"""The folder of --output, made before any heavy work."""

from pathlib import Path


def make_folder(path: str | None, name: str) -> Path | None:
  """The folder; None where none is asked for.

  Args:
    name: of the file that the command will write there.

  Raises:
    ValueError: it cannot be made, or already holds the file.
  """
  if path is None:
    return None
  folder = Path(path)
  try:
    folder.mkdir(parents=True, exist_ok=True)
  except OSError as error:
    raise ValueError(f"cannot make {path}: {error.strerror}") from error
  if (folder / name).exists():
    raise ValueError(f"{path} already holds {name}")
  return folder
