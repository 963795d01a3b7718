"""Text to train small models on: what every Python carries, or a file.

It is cut into pieces of a vocabulary that is learned from it, as the models of
the papers read word pieces: over bytes even a unigram law is often right.
"""

import ast
import importlib
import importlib.abc
import importlib.util
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tokenizers
from jaxtyping import Int

# Modules whose documentation strings are long, in Python 3.11 and 3.12.
MODULES = (
  "argparse",
  "asyncio",
  "collections",
  "configparser",
  "difflib",
  "doctest",
  "email",
  "http",
  "inspect",
  "ipaddress",
  "json",
  "logging",
  "multiprocessing",
  "random",
  "statistics",
  "subprocess",
  "tarfile",
  "threading",
  "traceback",
  "turtle",
  "typing",
  "unittest",
  "urllib",
  "wsgiref",
)
_TOPICS = "pydoc_data.topics"
_LEAST_BYTES = 50_000


class Corpus(NamedTuple):
  """Pieces to train on, and the last tenth, which no model has seen."""

  training: Int[np.ndarray, "N"]
  held_out: Int[np.ndarray, "M"]
  vocab_size: int


def load(text_file: str | None, vocab_size: int) -> Corpus:
  """A file's text, or Python's own documentation, in pieces.

  Args:
    text_file: None is the documentation.
    vocab_size: 256 bytes and merges of them (byte pairs, Sennrich et al. 2016),
      learned from nine tenths of the text; fewer where it has fewer.

  Raises:
    ValueError: the file cannot be read, or is shorter than 50,000 bytes; this
      Python was installed without its documentation.
  """
  text = _python_text() if text_file is None else _read(text_file)
  if len(text) < _LEAST_BYTES:
    raise ValueError(
      f"{text_file or 'the documentation of this Python'} has {len(text)}"
      f" bytes; training takes {_LEAST_BYTES} or more"
    )
  cut = len(text) * 9 // 10
  parts = [part.decode(errors="replace") for part in (text[:cut], text[cut:])]
  pieces = tokenizers.Tokenizer(tokenizers.models.BPE())
  byte_level = tokenizers.pre_tokenizers.ByteLevel
  pieces.pre_tokenizer = byte_level(add_prefix_space=False)
  trainer = tokenizers.trainers.BpeTrainer(
    vocab_size=vocab_size,
    initial_alphabet=byte_level.alphabet(),
    show_progress=False,
  )
  pieces.train_from_iterator(parts[0].splitlines(keepends=True), trainer)
  training, held_out = (
    np.asarray(pieces.encode(part).ids, np.int32) for part in parts
  )
  return Corpus(training, held_out, pieces.get_vocab_size())


def _read(path: str) -> bytes:
  try:
    return Path(path).read_bytes()
  except OSError as error:
    reason = error.strerror or error
    raise ValueError(f"cannot read the text {path}: {reason}") from error


def _python_text() -> bytes:
  """Documentation strings, then the topics of `help`; no paragraph twice.

  The same for one version of Python wherever it runs.
  """
  try:
    topics = importlib.import_module(_TOPICS).topics
  except ImportError as error:
    raise ValueError(
      "this Python lacks its documentation (pydoc_data): give a text file"
    ) from error
  texts = [text for name in MODULES for text in _docstrings(name)]
  texts += [topics[name] for name in sorted(topics)]
  paragraphs = (p.strip("\n") for text in texts for p in text.split("\n\n"))
  return "\n\n".join(dict.fromkeys(filter(None, paragraphs))).encode()


def _docstrings(module: str) -> Iterator[str]:
  """Of a module, or of the modules of a package, read from their source."""
  for source in _sources(module):
    for node in ast.walk(ast.parse(source)):
      kinds = ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef
      if isinstance(node, kinds) and (text := ast.get_docstring(node)):
        yield text


def _sources(module: str) -> Iterator[str]:
  spec = importlib.util.find_spec(module)
  if spec is None or spec.loader is None:
    return
  names = [module]
  if spec.submodule_search_locations is not None:
    inside = pkgutil.iter_modules(spec.submodule_search_locations)
    names += sorted(f"{module}.{part.name}" for part in inside)
  for name in names:
    spec = importlib.util.find_spec(name)
    if spec is not None and isinstance(
      spec.loader, importlib.abc.InspectLoader
    ):
      yield spec.loader.get_source(name) or ""
