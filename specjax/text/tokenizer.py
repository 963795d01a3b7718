"""One tokenizer, whatever file it came from."""

import dataclasses
import functools
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tokenizers

from specjax.text import chat, pieces, sources
from specjax.text.base import TextError


@dataclasses.dataclass(frozen=True, eq=False)
class Tokenizer:
  """Text to ids and back; compared by identity.

  Attributes:
    backend: what does the work.
    eos_ids: ids that end a generation.
    bos_id: the id put in front by `add_special`, where the model has one.
    chat_template: Jinja source.
    variables: special tokens by the names that templates use.
    unused: ids that only pad the vocabulary.
  """

  backend: tokenizers.Tokenizer
  eos_ids: tuple[int, ...] = ()
  bos_id: int | None = None
  chat_template: str | None = None
  variables: Mapping[str, str] = dataclasses.field(default_factory=dict)
  unused: tuple[int, ...] = ()

  @classmethod
  def load(
    cls, source: str | os.PathLike[str] | Mapping[str, Any]
  ) -> "Tokenizer":
    """From a folder with tokenizer.json, or from the metadata of a GGUF file.

    Raises:
      TextError: files missing or unsound, a kind that is not supported.
    """
    if isinstance(source, Mapping):
      return cls(**sources.from_gguf(source))
    return cls(**sources.from_folder(Path(source)))

  @functools.cached_property
  def _pieces(self) -> tuple[bytes, ...]:
    table = pieces.token_bytes(self.backend)
    for index in self.unused:
      table[index] = b""
    return tuple(table)

  @functools.cached_property
  def _special(self) -> frozenset[int]:
    added = self.backend.get_added_tokens_decoder()
    return frozenset(index for index, token in added.items() if token.special)

  @functools.cached_property
  def strips_first_space(self) -> bool:
    """Whether decoding drops a space that encoding put in front."""
    return pieces.strips_first_space(self.backend)

  @functools.cached_property
  def _adds_bos(self) -> bool:
    return self.bos_id in self.backend.encode("").ids

  @property
  def vocab_size(self) -> int:
    """Largest id plus one; a model's padded width may be larger."""
    return len(self._pieces)

  def token_bytes(self) -> list[bytes]:
    """Bytes by id: special tokens give their text, unused ids nothing."""
    return list(self._pieces)

  def piece(self, index: int, skip_special: bool = True) -> bytes:
    """Bytes of one token; nothing for padding."""
    if not 0 <= index < self.vocab_size or (
      skip_special and index in self._special
    ):
      return b""
    return self._pieces[index]

  def id_to_token(self, index: int) -> str | None:
    """The token as the vocabulary spells it; None for padding."""
    return self.backend.id_to_token(index)

  def encode(self, text: str, add_special: bool = True) -> list[int]:
    """Ids of a text, literal special tokens understood.

    Args:
      add_special: put BOS in front where the model wants it, never twice.
    """
    try:
      text.encode("utf-8")
    except UnicodeEncodeError as error:
      raise TextError(f"the text is not valid Unicode: {error}") from error
    ids = self.backend.encode(text, add_special_tokens=add_special).ids
    if add_special and self._adds_bos and ids[:2] == [self.bos_id] * 2:
      return ids[1:]
    return ids

  def decode(self, ids: Sequence[int], skip_special: bool = True) -> str:
    """Text of ids; bytes that are no character give U+FFFD."""
    text = b"".join(self.piece(index, skip_special) for index in ids)
    if self.strips_first_space:
      text = text.removeprefix(b" ")
    return text.decode("utf-8", "replace")

  def render_chat(
    self,
    messages: chat.Messages,
    add_generation_prompt: bool = True,
    **variables: Any,
  ) -> str:
    """The prompt that the model's template makes of messages.

    Args:
      messages: [{"role": "user", "content": "..."}, ...].
      add_generation_prompt: end where the assistant's turn begins.
      **variables: what else the template reads, such as tools.

    Raises:
      TextError: no template, or one that fails or refuses the messages.
    """
    if self.chat_template is None:
      raise TextError("this model has no chat template; give it a plain prompt")
    return chat.render(
      self.chat_template,
      messages,
      add_generation_prompt,
      {**self.variables, **variables},
    )

  def encode_chat(
    self,
    messages: chat.Messages,
    add_generation_prompt: bool = True,
    **variables: Any,
  ) -> list[int]:
    """Ids of `render_chat`; the template itself writes BOS."""
    text = self.render_chat(messages, add_generation_prompt, **variables)
    return self.encode(text, add_special=False)

  def save(self, folder: Path) -> None:
    """Writes the files that `load` reads from a folder."""
    self.backend.save(str(folder / "tokenizer.json"))
    settings = {**self.variables, "chat_template": self.chat_template}
    generation = {"eos_token_id": list(self.eos_ids)}
    for name, value in (
      ("tokenizer_config.json", settings),
      ("generation_config.json", generation),
    ):
      text = json.dumps(value, indent=2, ensure_ascii=False)
      (folder / name).write_text(text, encoding="utf-8")
