"""Conversations in one small file: what a recipe may start from.

An .npz of flat arrays, which numpy reads by itself: token_ids (uint16 or
uint32), sizes, spans and the number of them a text, and the other fields as
JSON. Compressed by LZMA, and the same bytes whenever it is packed.
"""

import io
import itertools
import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from specjax.training.data.conversations import Conversation

_DATE = (1980, 1, 1, 0, 0, 0)
_FIELDS = ("id", "source", "temperature", "prompt_id")


def pack(conversations: Sequence[Conversation], path: Path) -> int:
  """Writes conversations to a file that `unpack` reads back equal.

  Returns:
    its size in bytes.

  Raises:
    ValueError: there are none.
  """
  if not conversations:
    raise ValueError("there is no conversation to pack")
  ids = np.asarray([i for c in conversations for i in c.token_ids], np.int64)
  small = not len(ids) or ids.max() < 1 << 16
  spans = [span for c in conversations for span in c.answers]
  fields = {n: [getattr(c, n) for c in conversations] for n in _FIELDS}
  arrays = {
    "token_ids": ids.astype(np.uint16 if small else np.uint32),
    "sizes": np.asarray([len(c.token_ids) for c in conversations], np.uint32),
    "spans": np.asarray(spans, np.uint32).reshape(-1, 2),
    "span_counts": np.asarray(
      [len(c.answers) for c in conversations], np.uint32
    ),
    "fields": np.frombuffer(json.dumps(fields).encode(), np.uint8),
  }
  temporary = path.with_name(f"{path.name}.part")
  with zipfile.ZipFile(temporary, "w", zipfile.ZIP_LZMA) as file:
    for name, array in arrays.items():
      buffer = io.BytesIO()
      np.save(buffer, array)
      info = zipfile.ZipInfo(f"{name}.npy", _DATE)
      file.writestr(info, buffer.getvalue(), zipfile.ZIP_LZMA)
  temporary.replace(path)
  return path.stat().st_size


def unpack(path: Path) -> list[Conversation]:
  """Conversations of a packed file.

  Raises:
    ValueError: no such file, or another content.
  """
  try:
    with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
      arrays: dict[str, Any] = dict(file)
    fields = json.loads(arrays["fields"].tobytes())
    sizes, counts = arrays["sizes"].tolist(), arrays["span_counts"].tolist()
  except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
    reason = getattr(error, "strerror", None) or error
    raise ValueError(
      f"{path} holds no packed conversations: {reason}"
    ) from error
  ids = iter(arrays["token_ids"].tolist())
  spans = iter(arrays["spans"].tolist())
  rows = zip(*(fields[name] for name in _FIELDS), sizes, counts, strict=True)
  return [
    Conversation(
      id=id_,
      source=source,
      token_ids=tuple(itertools.islice(ids, size)),
      answers=tuple((a, b) for a, b in itertools.islice(spans, count)),
      temperature=temperature,
      prompt_id=prompt,
    )
    for id_, source, temperature, prompt, size, count in rows
  ]
