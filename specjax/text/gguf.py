"""Tokenizers rebuilt from the metadata of a GGUF file.

Split patterns follow the published tokenizer.json of each family, which
llama.cpp names by `tokenizer.ggml.pre` (its src/llama-vocab.cpp).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from specjax.text.base import TextError
from specjax.text.pieces import SPACE

_NORMAL, _CONTROL, _USER_DEFINED, _UNUSED = 1, 3, 4, 5
_DIGITS = ("smollm", "starcoder", "refact", "command-r", "codeshell")
_GPT2 = ("gpt-2", "gpt2", "default", "olmo", "jais")
_LLAMA3 = ("llama-bpe", "llama3", "llama-v3", "smaug-bpe")
_QWEN2 = ("qwen2",)
_WORDS = (
  r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s"
  r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def from_metadata(metadata: Mapping[str, Any]) -> tokenizers.Tokenizer:
  """The `tokenizers` form of `tokenizer.ggml.*`.

  Raises:
    TextError: a model or pre-tokenizer that is not supported, by name, or
      metadata that lack the vocabulary.
  """
  model = metadata.get("tokenizer.ggml.model")
  builders = {"gpt2": _byte_level, "llama": _sentencepiece}
  if model not in builders:
    raise TextError(
      f"GGUF tokenizer model {model!r} is not supported, only gpt2 and llama"
    )
  tokens = metadata.get("tokenizer.ggml.tokens")
  if not isinstance(tokens, list) or not tokens:
    raise TextError("the GGUF metadata lack tokenizer.ggml.tokens")
  types = metadata.get("tokenizer.ggml.token_type")
  types = [_NORMAL] * len(tokens) if types is None else list(map(int, types))
  if len(types) != len(tokens):
    raise TextError(f"{len(tokens)} tokens but {len(types)} token types")
  backend = builders[model](metadata, tokens)
  backend.add_special_tokens(_added(tokens, types, _CONTROL))
  backend.add_tokens(_added(tokens, types, _USER_DEFINED))
  if begin := _begin(metadata, tokens, model):
    backend.post_processor = processors.TemplateProcessing(
      single=[begin[0], "$A"],
      pair=[begin[0], "$A", begin[0], "$B"],
      special_tokens=[begin],
    )
  return backend


def unused_ids(metadata: Mapping[str, Any]) -> list[int]:
  """Ids that only pad the vocabulary."""
  types = metadata.get("tokenizer.ggml.token_type")
  if types is None:
    return []
  return [i for i, kind in enumerate(types) if kind == _UNUSED]


def _added(
  tokens: Sequence[str], types: Sequence[int], kind: int
) -> list[tokenizers.AddedToken]:
  return [
    tokenizers.AddedToken(token, normalized=False, special=kind == _CONTROL)
    for token, type_ in zip(tokens, types, strict=True)
    if type_ == kind and token
  ]


def _begin(
  metadata: Mapping[str, Any], tokens: Sequence[str], model: str
) -> tuple[str, int] | None:
  index = metadata.get("tokenizer.ggml.bos_token_id")
  # What llama.cpp takes an absent flag for.
  usual = model == "llama" or metadata.get("tokenizer.ggml.pre") in _LLAMA3
  if not metadata.get("tokenizer.ggml.add_bos_token", usual):
    return None
  if type(index) is not int or not 0 <= index < len(tokens):
    raise TextError("the GGUF metadata ask for a BOS token but name none")
  return tokens[index], index


def _vocabulary(tokens: Sequence[str]) -> dict[str, int]:
  vocabulary = {token: index for index, token in enumerate(tokens)}
  if len(vocabulary) != len(tokens):
    raise TextError("the GGUF vocabulary holds a token twice")
  return vocabulary


def _byte_level(
  metadata: Mapping[str, Any], tokens: Sequence[str]
) -> tokenizers.Tokenizer:
  kind = metadata.get("tokenizer.ggml.pre", "default")
  gpt2 = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
  plain = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
  if kind in _DIGITS:
    splitter = [pre_tokenizers.Digits(individual_digits=True), gpt2]
  elif kind in _GPT2:
    splitter = [gpt2]
  elif kind in _LLAMA3 or kind in _QWEN2:
    pattern = _WORDS % ("{1,3}" if kind in _LLAMA3 else "")
    splitter = [
      pre_tokenizers.Split(tokenizers.Regex(pattern), behavior="isolated"),
      plain,
    ]
  else:
    known = ", ".join((*_DIGITS, *_GPT2, *_LLAMA3, *_QWEN2))
    raise TextError(
      f"GGUF pre-tokenizer {kind!r} is not supported, only {known}; use the"
      " model's tokenizer.json"
    )
  merges = metadata.get("tokenizer.ggml.merges")
  if not isinstance(merges, list):
    raise TextError("the GGUF metadata lack tokenizer.ggml.merges")
  try:
    pairs = [(left, right) for left, right in (m.split(" ") for m in merges)]
  except ValueError:
    raise TextError("a GGUF merge is not two tokens") from None
  backend = tokenizers.Tokenizer(
    _bpe(_vocabulary(tokens), pairs, ignore_merges=kind in _LLAMA3)
  )
  if kind in _QWEN2:
    backend.normalizer = normalizers.NFC()
  backend.pre_tokenizer = pre_tokenizers.Sequence(splitter)
  backend.decoder = decoders.ByteLevel()
  return backend


def _sentencepiece(
  metadata: Mapping[str, Any], tokens: Sequence[str]
) -> tokenizers.Tokenizer:
  scores = metadata.get("tokenizer.ggml.scores")
  if scores is None or len(scores) != len(tokens):
    raise TextError("the GGUF metadata lack a score for each token")
  vocabulary = _vocabulary(tokens)
  unknown = metadata.get("tokenizer.ggml.unknown_token_id", 0)
  if type(unknown) is not int or not 0 <= unknown < len(tokens):
    raise TextError(f"the GGUF metadata name token {unknown} as unknown")
  backend = tokenizers.Tokenizer(
    _bpe(
      vocabulary,
      _merges(vocabulary, scores),
      unk_token=tokens[unknown],
      fuse_unk=True,
      byte_fallback=True,
    )
  )
  prefix = bool(metadata.get("tokenizer.ggml.add_space_prefix", True))
  backend.normalizer = normalizers.Sequence(
    [
      *([normalizers.Prepend(SPACE)] if prefix else []),
      normalizers.Replace(" ", SPACE),
    ]
  )
  backend.decoder = decoders.Sequence(
    [
      decoders.Replace(SPACE, " "),
      decoders.ByteFallback(),
      decoders.Fuse(),
      *([decoders.Strip(" ", 1, 0)] if prefix else []),
    ]
  )
  return backend


def _merges(
  vocabulary: Mapping[str, int], scores: Sequence[float]
) -> list[tuple[str, str]]:
  """SentencePiece merges the pair whose union scores best, leftmost first."""
  ranked = []
  for token, index in vocabulary.items():
    for cut in range(1, len(token)):
      left, right = vocabulary.get(token[:cut]), vocabulary.get(token[cut:])
      if left is not None and right is not None:
        pair = token[:cut], token[cut:]
        ranked.append((-float(scores[index]), left, right, pair))
  return [pair for *_, pair in sorted(ranked)]


def _bpe(
  vocabulary: dict[str, int], merges: list[tuple[str, str]], **options: Any
) -> models.BPE:
  try:
    return models.BPE(vocab=vocabulary, merges=merges, **options)
  except Exception as error:
    raise TextError(f"the GGUF vocabulary is unsound: {error}") from error
