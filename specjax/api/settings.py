"""What a caller asks for: sampling settings and prompts."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from specjax import sampling, types
from specjax.checkpoints.loaded import LoadedModel
from specjax.text import Tokenizer

Prompt = str | Sequence[int] | Sequence[Mapping[str, Any]]


@dataclasses.dataclass(frozen=True)
class Sampling:
  """Settings of the law, each a number or one a prompt.

  Filters run in transformers' order: temperature, top_k, top_p, min_p.

  Attributes:
    temperature: 0 is greedy.
    top_k: 0 is off.
    top_p: in (0, 1]; 1 is off.
    min_p: in [0, 1]; 0 is off.

  Raises:
    ValueError: a value outside its range, or lists of different lengths.
  """

  temperature: sampling.Numbers = 0.0
  top_k: sampling.Numbers = 0
  top_p: sampling.Numbers = 1.0
  min_p: sampling.Numbers = 0.0

  def __post_init__(self):
    for field in dataclasses.fields(self):
      value = getattr(self, field.name)
      if isinstance(value, np.ndarray):  # unhashable and hard to compare
        object.__setattr__(self, field.name, value.tolist())
    sizes = {len(x) for x in self._lists().values()}
    if len(sizes) > 1:
      raise ValueError(
        f"sampling lists have different lengths: {sorted(sizes)}"
      )
    self.rows(*sizes or {1})

  def _lists(self) -> dict[str, Sequence[Any]]:
    values = vars(self).items()
    return {
      name: value
      for name, value in values
      if isinstance(value, Sequence) and not isinstance(value, str)
    }

  def rows(self, batch: int) -> types.Sampling:
    """The device's form, a value a row."""
    for name, value in self._lists().items():
      if len(value) != batch:
        raise ValueError(f"{len(value)} values of {name} for {batch} prompts")
    return sampling.make_sampling(batch, **vars(self))


def encode_prompts(
  target: LoadedModel, prompts: Sequence[Prompt], chat: bool | None
) -> list[list[int]]:
  """Token ids of prompts; see `generate`.

  Raises:
    ValueError: no prompt, or one that is empty, malformed, outside the
      vocabulary or as long as the context; it is named by its place.
  """
  if isinstance(prompts, str):
    raise ValueError("prompts must be a list, got one string")
  if not len(prompts):
    raise ValueError("there is no prompt")
  encoded = []
  for index, prompt in enumerate(prompts):
    try:
      encoded.append(_encode(target, prompt, chat))
    except ValueError as error:
      which = f"prompt {index + 1}: " if len(prompts) > 1 else ""
      raise ValueError(f"{which}{error}") from error
  return encoded


def _encode(
  target: LoadedModel, prompt: Prompt, chat: bool | None
) -> list[int]:
  ids = _ids(target, prompt, chat)
  vocab, context = target.model.vocab_size, target.model.max_positions
  if not ids:
    raise ValueError("the prompt is empty")
  if not all(0 <= i < vocab for i in ids):
    raise ValueError(f"a token id is outside the vocabulary of {vocab}")
  if len(ids) >= context:
    raise ValueError(
      f"the prompt has {len(ids)} tokens and {target.name} takes {context},"
      " the answer included; shorten it"
    )
  return ids


def _ids(target: LoadedModel, prompt: Prompt, chat: bool | None) -> list[int]:
  if isinstance(prompt, str):
    if not prompt.strip():
      raise ValueError("the prompt is empty")
    tokenizer = _tokenizer(target)
    if chat or (chat is None and tokenizer.chat_template is not None):
      return tokenizer.encode_chat([{"role": "user", "content": prompt}])
    return tokenizer.encode(prompt)
  if isinstance(prompt, Sequence):
    messages = [item for item in prompt if isinstance(item, Mapping)]
    if messages and len(messages) == len(prompt):
      return _tokenizer(target).encode_chat(messages)
  ids = np.asarray(prompt)
  if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
    raise ValueError(
      "a prompt is a string, a list of messages or a list of token ids, got"
      f" {prompt!r:.60}"
    )
  return ids.tolist()


def _tokenizer(target: LoadedModel) -> Tokenizer:
  if target.tokenizer is None:
    raise ValueError(f"{target.name} has no tokenizer: give token ids")
  return target.tokenizer
