"""The bytes that each token stands for."""

import json
import re
from collections.abc import Mapping
from typing import Any

import tokenizers

from specjax.text.base import TextError

SPACE = "\u2581"
_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def byte_alphabet() -> dict[str, int]:
  """Byte of each character in a byte-level vocabulary (GPT-2's encoder.py).

  Printable Latin-1 stands for itself, the other bytes are shifted past 255.
  """
  visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
  hidden = [byte for byte in range(256) if byte not in visible]
  table = {chr(byte): byte for byte in visible}
  return table | {chr(256 + i): byte for i, byte in enumerate(hidden)}


def token_bytes(backend: tokenizers.Tokenizer) -> list[bytes]:
  """Bytes by id: special tokens give their text, unused ids nothing."""
  state = json.loads(backend.to_str())
  added = {token["id"]: token["content"] for token in state["added_tokens"]}
  kinds = {part["type"] for part in _parts(state["decoder"])}
  alphabet = byte_alphabet() if "ByteLevel" in kinds else None
  if alphabet is None and not kinds & {"ByteFallback", "Metaspace"}:
    raise TextError(
      f"a tokenizer that decodes by {sorted(kinds)} is not supported, only"
      " byte-level and SentencePiece ones"
    )
  vocabulary = backend.get_vocab(with_added_tokens=True)
  pieces = [b""] * (max(vocabulary.values(), default=-1) + 1)
  for token, index in vocabulary.items():
    if index not in added:
      pieces[index] = _piece(token, alphabet)
  for index, text in added.items():
    pieces[index] = text.encode("utf-8")
  return pieces


def strips_first_space(backend: tokenizers.Tokenizer) -> bool:
  """Whether decoding drops a space that encoding put in front."""
  return any(
    part["type"] == "Strip"
    and part["content"] == " "
    and part["start"] > 0
    or part["type"] == "Metaspace"
    and part["prepend_scheme"] != "never"
    for part in _parts(json.loads(backend.to_str())["decoder"])
  )


def _piece(token: str, alphabet: Mapping[str, int] | None) -> bytes:
  if alphabet is not None:
    try:
      return bytes(alphabet[char] for char in token)
    except KeyError:
      return token.encode("utf-8")
  if match := _BYTE.fullmatch(token):
    return bytes([int(match[1], 16)])
  return token.replace(SPACE, " ").encode("utf-8")


def _parts(decoder: Any) -> list[dict[str, Any]]:
  if decoder is None:
    return []
  if decoder["type"] == "Sequence":
    return [part for inner in decoder["decoders"] for part in _parts(inner)]
  return [decoder]
