"""The default model's tokenizer, and a small SentencePiece one."""

import json
import pathlib

import pytest

from specjax.checkpoints import resolve
from specjax.checkpoints.gguf_header import read_header
from specjax.text import Tokenizer

DATA = pathlib.Path(__file__).parents[1] / "data" / "tokenizer_ids.json"


@pytest.fixture(scope="session")
def reference():
  """Ids by tokenizers that share no code with this package."""
  return json.loads(DATA.read_text())


@pytest.fixture(scope="session")
def metadata():
  return read_header(resolve("smollm2-135m").fetch()).metadata


@pytest.fixture(scope="session")
def smollm2(metadata):
  return Tokenizer.load(metadata)


@pytest.fixture(scope="session")
def spm_metadata(reference):
  spm = reference["sentencepiece"]
  return {
    "tokenizer.ggml.model": "llama",
    "tokenizer.ggml.bos_token_id": 1,
    "tokenizer.ggml.eos_token_id": 2,
    "tokenizer.ggml.unknown_token_id": 0,
  } | {
    f"tokenizer.ggml.{name}": spm[name]
    for name in ("tokens", "scores", "token_type")
  }


@pytest.fixture(scope="session")
def sentencepiece(spm_metadata):
  return Tokenizer.load(spm_metadata)
