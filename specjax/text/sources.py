"""What a tokenizer is made of, read from a folder or from GGUF metadata."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tokenizers

from specjax.text import gguf
from specjax.text.base import TextError

# Names under which families publish "the turn is over".
_END_NAMES = (
  "<|im_end|>",
  "<|endoftext|>",
  "<|end_of_text|>",
  "<|eot_id|>",
  "<|eom_id|>",
  "<|end|>",
  "<end_of_turn>",
)
_GGUF_ENDS = ("eos_token_id", "eot_token_id", "eom_token_id")


def from_gguf(metadata: Mapping[str, Any]) -> dict[str, Any]:
  """Fields of `Tokenizer` from `tokenizer.*` metadata."""
  backend = gguf.from_metadata(metadata)
  names = {"bos": "bos", "eos": "eos", "pad": "padding", "unk": "unknown"}
  ids = {
    f"{short}_token": index
    for short, long in names.items()
    if type(index := metadata.get(f"tokenizer.ggml.{long}_token_id")) is int
  }
  return {
    "backend": backend,
    "eos_ids": _ends(
      backend, [metadata.get(f"tokenizer.ggml.{name}") for name in _GGUF_ENDS]
    ),
    "bos_id": ids.get("bos_token"),
    "chat_template": metadata.get("tokenizer.chat_template"),
    "variables": {
      name: text
      for name, index in ids.items()
      if (text := backend.id_to_token(index)) is not None
    },
    "unused": tuple(gguf.unused_ids(metadata)),
  }


def from_folder(folder: Path) -> dict[str, Any]:
  """Fields of `Tokenizer` from tokenizer.json and the files beside it."""
  file = folder / "tokenizer.json"
  try:
    backend = tokenizers.Tokenizer.from_str(file.read_text(encoding="utf-8"))
  except Exception as error:
    raise TextError(f"cannot read {file}: {error}") from error
  backend.no_truncation()
  backend.no_padding()
  settings = _json(folder / "tokenizer_config.json")
  variables = {
    name: text
    for name in ("bos_token", "eos_token", "pad_token", "unk_token")
    if (text := _content(settings.get(name))) is not None
  }
  ends: list[Any] = [backend.token_to_id(variables.get("eos_token", ""))]
  for name in ("generation_config.json", "config.json"):
    value = _json(folder / name).get("eos_token_id")
    ends.extend(value if isinstance(value, list) else [value])
  return {
    "backend": backend,
    "eos_ids": _ends(backend, ends),
    "bos_id": backend.token_to_id(variables.get("bos_token", "")),
    "chat_template": _template(folder, settings),
    "variables": variables,
  }


def _template(folder: Path, settings: Mapping[str, Any]) -> str | None:
  file = folder / "chat_template.jinja"
  if file.is_file():
    return file.read_text(encoding="utf-8")
  template = settings.get("chat_template")
  if isinstance(template, list):
    named = {entry["name"]: entry["template"] for entry in template}
    return named.get("default")
  return template


def _ends(
  backend: tokenizers.Tokenizer, stated: Sequence[Any]
) -> tuple[int, ...]:
  """Ends that the files state, and the special tokens known to be ends."""
  special = {
    token.content: index
    for index, token in backend.get_added_tokens_decoder().items()
    if token.special
  }
  known = [special[name] for name in _END_NAMES if name in special]
  return tuple(sorted({*known, *(x for x in stated if type(x) is int)}))


def _json(path: Path) -> dict[str, Any]:
  if not path.is_file():
    return {}
  try:
    value = json.loads(path.read_text(encoding="utf-8"))
  except (OSError, ValueError) as error:
    raise TextError(f"cannot read {path}: {error}") from error
  return value if isinstance(value, dict) else {}


def _content(token: Any) -> str | None:
  return token.get("content") if isinstance(token, dict) else token
