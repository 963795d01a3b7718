"""The header of a GGUF file, checked against the size of the file.

Layout: ggml's docs/gguf.md, versions 2 and 3, little-endian. The `gguf` package
gives types, block sizes and dequantisation; its reader makes two arrays per
string (seconds for a vocabulary) and trusts the counts in the file.
"""

import dataclasses
import math
import mmap
import struct
from pathlib import Path
from typing import Any

import numpy as np
from gguf.constants import (
  GGML_QUANT_SIZES,
  GGUF_DEFAULT_ALIGNMENT,
  GGUF_MAGIC,
  GGMLQuantizationType,
  GGUFValueType,
)

from specjax.checkpoints.base import CheckpointError

_SCALARS = {
  GGUFValueType.UINT8: "u1",
  GGUFValueType.INT8: "i1",
  GGUFValueType.UINT16: "<u2",
  GGUFValueType.INT16: "<i2",
  GGUFValueType.UINT32: "<u4",
  GGUFValueType.INT32: "<i4",
  GGUFValueType.FLOAT32: "<f4",
  GGUFValueType.BOOL: "?",
  GGUFValueType.UINT64: "<u8",
  GGUFValueType.INT64: "<i8",
  GGUFValueType.FLOAT64: "<f8",
}
_MAX_DIMS = 4
_MAX_STRINGS = 1 << 22


@dataclasses.dataclass(frozen=True)
class GgufTensor:
  """One tensor: `shape` is in row-major order, `data` its raw bytes."""

  type: GGMLQuantizationType
  shape: tuple[int, ...]
  data: np.ndarray


@dataclasses.dataclass(frozen=True)
class Header:
  """Metadata by key and tensors by name."""

  metadata: dict[str, Any]
  tensors: dict[str, GgufTensor]


def read_header(path: Path) -> Header:
  """Reads metadata and maps the tensors of a GGUF file.

  Raises:
    CheckpointError: not a GGUF file, or one that is cut short or malformed.
  """
  try:
    with open(path, "rb") as file:
      data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
  except (OSError, ValueError) as error:
    raise CheckpointError(f"cannot read {path}: {error}") from error
  try:
    return _parse(_Cursor(data))
  except (ValueError, struct.error) as error:
    raise CheckpointError(
      f"{path} is not a sound GGUF file: {error}; fetch it again"
    ) from error


class _Cursor:
  """Reads forward and never past the end."""

  def __init__(self, data: mmap.mmap):
    self.data = data
    self.offset = 0

  def take(self, size: int) -> bytes:
    start, end = self.offset, self.offset + size
    if end > len(self.data):
      raise ValueError(f"it ends at byte {len(self.data)}, before {end}")
    self.offset = end
    return self.data[start:end]

  def number(self, code: str) -> Any:
    return struct.unpack("<" + code, self.take(struct.calcsize("<" + code)))[0]

  def string(self) -> str:
    return self.take(self.number("Q")).decode("utf-8")

  def value(self, kind: GGUFValueType) -> Any:
    if kind == GGUFValueType.STRING:
      return self.string()
    if kind != GGUFValueType.ARRAY:
      dtype = np.dtype(_SCALARS[kind])
      return np.frombuffer(self.take(dtype.itemsize), dtype)[0].item()
    kind, count = GGUFValueType(self.number("I")), self.number("Q")
    if kind == GGUFValueType.ARRAY:
      raise ValueError("an array of arrays")
    if kind == GGUFValueType.STRING:
      if count > min(_MAX_STRINGS, len(self.data) // 8):
        raise ValueError(f"an array of {count} strings")
      return [self.string() for _ in range(count)]
    dtype = np.dtype(_SCALARS[kind])
    return np.frombuffer(self.take(count * dtype.itemsize), dtype)


def _parse(cursor: _Cursor) -> Header:
  if cursor.number("I") != GGUF_MAGIC:
    raise ValueError("it does not start with the GGUF magic bytes")
  version = cursor.number("I")
  if version not in (2, 3):
    raise ValueError(f"version {version} is not 2 or 3 (little-endian)")
  num_tensors, num_fields = cursor.number("Q"), cursor.number("Q")
  metadata: dict[str, Any] = {}
  for _ in range(num_fields):
    key = cursor.string()
    if key in metadata:
      raise ValueError(f"{key} appears twice")
    metadata[key] = cursor.value(GGUFValueType(cursor.number("I")))
  infos = {}
  for _ in range(num_tensors):
    name, info = cursor.string(), _tensor_info(cursor)
    if name in infos:
      raise ValueError(f"{name} appears twice")
    infos[name] = info
  alignment = metadata.get("general.alignment", GGUF_DEFAULT_ALIGNMENT)
  if type(alignment) is not int or alignment < 1 or alignment % 8:
    raise ValueError(f"an alignment of {alignment}")
  start = -(-cursor.offset // alignment) * alignment
  return Header(
    metadata,
    {
      name: _map_tensor(cursor, name, info, start)
      for name, info in infos.items()
    },
  )


def _tensor_info(cursor: _Cursor) -> tuple[tuple[int, ...], int, int]:
  num_dims = cursor.number("I")
  if num_dims > _MAX_DIMS:
    raise ValueError(f"a tensor of {num_dims} dimensions")
  dims = tuple(cursor.number("Q") for _ in range(num_dims))
  return dims[::-1], cursor.number("I"), cursor.number("Q")


def _map_tensor(
  cursor: _Cursor,
  name: str,
  info: tuple[tuple[int, ...], int, int],
  start: int,
) -> GgufTensor:
  shape, code, offset = info
  kind = GGMLQuantizationType(code)
  block, num_bytes = GGML_QUANT_SIZES[kind]
  if shape and shape[-1] % block:
    raise ValueError(f"{name} {shape} does not divide into blocks of {block}")
  size = math.prod(shape) // block * num_bytes
  begin = start + offset
  if begin + size > len(cursor.data):
    raise ValueError(
      f"{name} ends at byte {begin + size} of {len(cursor.data)}"
    )
  return GgufTensor(
    kind, shape, np.frombuffer(cursor.data, np.uint8, size, begin)
  )
