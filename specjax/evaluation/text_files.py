"""Text files that users give."""

import os
from pathlib import Path


def read(path: str | os.PathLike[str]) -> str:
  """A UTF-8 file, lines ended as Unix does, without a byte order mark.

  Raises:
    ValueError: it cannot be read, or is no UTF-8, by line.
  """
  try:
    return Path(path).read_text(encoding="utf-8-sig")
  except UnicodeDecodeError as error:
    whole = error.object[: error.start + 1]
    line = len(whole.splitlines())
    raise ValueError(
      f"{path}, line {line}: byte 0x{whole[-1]:02x} is no UTF-8"
    ) from error
  except OSError as error:
    reason = error.strerror or error
    raise ValueError(f"cannot read {path}: {reason}") from error
