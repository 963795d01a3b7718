"""Labelled texts on disk: shards of flat ragged arrays, written whole.

A folder holds manifest.json and shard-00000.safetensors, ... In a shard of n
texts with T tokens, all texts one after another:

  tokens          [T]      uint16, or uint32 where the vocabulary needs it
  offsets         [n + 1]  text i is tokens[offsets[i] : offsets[i + 1]]
  mask            [T]      whether the law after a token is to be learnt
  top_ids         [T K]    as tokens
  top_log_probs   [T K]    float16 or float32
  log_tail        [T]      float32
  features.NAME   [T F]    bfloat16, float16 or float32

and, in its metadata, what `Entry` says of each text. Reading maps the files and
copies the spans that are asked for.
"""

import contextlib
import copy
import dataclasses
import hashlib
import json
import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import filelock
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int, Num
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from specjax.training.data.conversations import (
  Conversation,
  on_side,
)
from specjax.training.data.writing import check_settings

MANIFEST = "manifest.json"
SHARD_BYTES = 64 << 20
_FEATURE = "features."


@dataclasses.dataclass(frozen=True)
class Labelled:
  """A text with what a target said after each of its tokens.

  Where a position has fewer than K log-probabilities the rest are (0, -inf);
  where it has none, log_tail is 0.
  """

  conversation: Conversation
  top_ids: Int[np.ndarray, "L K"]
  top_log_probs: Float[np.ndarray, "L K"]
  log_tail: Float[np.ndarray, "L"]
  features: dict[str, Num[np.ndarray, "L F"]] = dataclasses.field(
    default_factory=dict
  )


@dataclasses.dataclass(frozen=True)
class Entry:
  """One text of a store.

  Attributes:
    digest: of its tokens and spans, by which it is stored but once.
    id, source, temperature, prompt_id: as in `Conversation`.
    answered: positions of its mask.
    shard, start, end: where its tokens lie.
  """

  digest: str
  id: str
  source: str
  temperature: float | None
  prompt_id: str
  answered: int
  shard: int
  start: int
  end: int

  @property
  def size(self) -> int:
    return self.end - self.start


@dataclasses.dataclass(frozen=True)
class Span:
  """Part of a text, copied from its shard."""

  tokens: Int[np.ndarray, "L"]
  mask: Bool[np.ndarray, "L"]
  top_ids: Int[np.ndarray, "L K"]
  top_log_probs: Float[np.ndarray, "L K"]
  log_tail: Float[np.ndarray, "L"]
  features: dict[str, Num[np.ndarray, "L F"]]


class Store:
  """A folder of shards, read by memory map.

  Raises:
    ValueError: no such folder, or a shard that is missing or unsound.
  """

  def __init__(self, path: Path):
    self.path = Path(path)
    manifest = _read_manifest(self.path)
    self.settings: dict[str, Any] = manifest["settings"]
    self._shards = [_open(self.path / name) for name in manifest["shards"]]
    self.entries = tuple(
      entry
      for number, shard in enumerate(self._shards)
      for entry in _entries(number, shard)
    )

  def __len__(self) -> int:
    return len(self.entries)

  @property
  def vocab_size(self) -> int:
    return self.settings["model"]["vocab_size"]

  def only(self, digests: Iterable[str]) -> "Store":
    """The store with these texts alone, once each, in this order.

    What is drawn from it does not depend on what else is stored.

    Raises:
      ValueError: a text that is not there.
    """
    there = {entry.digest: entry for entry in self.entries}
    wanted = list(dict.fromkeys(digests))
    if missing := [digest for digest in wanted if digest not in there]:
      raise ValueError(f"{self.path} lacks {len(missing)} of the texts")
    view = copy.copy(self)
    view.entries = tuple(there[digest] for digest in wanted)
    return view

  def side(self, side: str, held_out: float) -> list[int]:
    """Places of the texts on one side of a split by prompt."""
    return [
      i
      for i, entry in enumerate(self.entries)
      if on_side(entry.prompt_id, side, held_out)
    ]

  def read(
    self,
    index: int,
    start: int = 0,
    end: int | None = None,
    features: Sequence[str] | None = None,
  ) -> Span:
    """Tokens [start, end) of a text.

    Args:
      index: place in `entries`.
      start, end: within the text; None is its end.
      features: names of those wanted; None is all.
    """
    entry = self.entries[index]
    end = entry.size if end is None else min(end, entry.size)
    at = slice(entry.start + start, entry.start + end)
    names = self.settings["taps"] if features is None else features
    shard = self._shards[entry.shard]

    def cut(name: str):
      return shard.get_slice(name)[at]

    return Span(
      tokens=cut("tokens").astype(np.int32),
      mask=cut("mask"),
      top_ids=cut("top_ids").astype(np.int32),
      top_log_probs=cut("top_log_probs"),
      log_tail=cut("log_tail"),
      features={name: cut(_FEATURE + name) for name in names},
    )

  def tokens(
    self, index: int
  ) -> tuple[Int[np.ndarray, "L"], Bool[np.ndarray, "L"]]:
    """(tokens, mask) of a whole text, nothing else read."""
    entry = self.entries[index]
    shard, at = self._shards[entry.shard], slice(entry.start, entry.end)
    tokens = shard.get_slice("tokens")[at].astype(np.int32)
    return tokens, shard.get_slice("mask")[at]

  def answer_counts(self, side: str, held_out: float) -> Int[np.ndarray, "V"]:
    """How often each token stands in an answer, on one side of a split."""
    counts = np.zeros(self.vocab_size, np.int64)
    for index in self.side(side, held_out):
      tokens, mask = self.tokens(index)
      counts += np.bincount(tokens[1:][mask[:-1]], minlength=len(counts))
    return counts


class StoreWriter:
  """Appends labelled texts; made by `claim` alone.

  Attributes:
    digests: of the texts that are there.
  """

  def __init__(self, path: Path, settings: dict[str, Any], shard_bytes: int):
    self._path, self._settings = path, settings
    self._shard_bytes = shard_bytes
    self._shards: list[str] = []
    self._waiting: list[Labelled] = []
    self._bytes = 0
    self.digests: set[str] = set()
    if (path / MANIFEST).exists():
      store = Store(path)
      check_settings(path, store.settings, settings)
      self._shards = _read_manifest(path)["shards"]
      self.digests = {entry.digest for entry in store.entries}

  def add(self, text: Labelled) -> None:
    """Keeps a text, unless it is there; it is on the disk after `flush`."""
    digest = digest_of(text.conversation)
    if digest in self.digests:
      return
    self.digests.add(digest)
    self._waiting.append(text)
    size = len(text.conversation.token_ids)
    self._bytes += size * self._bytes_a_token(text)
    if self._bytes >= self._shard_bytes:
      self.flush()

  def flush(self) -> None:
    """Writes the texts that wait as one shard, whole or not at all."""
    if not self._waiting:
      return
    name = f"shard-{len(self._shards):05d}.safetensors"
    arrays, metadata = self._pack()
    temporary = self._path / f"{name}.part"
    save_file(arrays, temporary, metadata=metadata)
    os.replace(temporary, self._path / name)
    self._shards.append(name)
    _write_manifest(self._path, self._settings, self._shards)
    self._waiting, self._bytes = [], 0

  def _bytes_a_token(self, text: Labelled) -> int:
    log_probs = np.dtype(self._settings["log_probs_dtype"]).itemsize
    features = jnp.dtype(self._settings["features_dtype"]).itemsize
    ids = self._ids_dtype().itemsize
    wide = sum(x.shape[1] for x in text.features.values())
    k = text.top_ids.shape[1]
    return ids + 1 + k * (ids + log_probs) + 4 + wide * features

  def _ids_dtype(self) -> np.dtype:
    small = self._settings["model"]["vocab_size"] <= 1 << 16
    return np.dtype(np.uint16 if small else np.uint32)

  def _pack(self) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    ids, texts = self._ids_dtype(), self._waiting
    log_probs = np.dtype(self._settings["log_probs_dtype"])
    kept = jnp.dtype(self._settings["features_dtype"])
    sizes = [len(t.conversation.token_ids) for t in texts]

    def join(arrays, dtype):
      return np.concatenate([np.asarray(x) for x in arrays]).astype(dtype)

    arrays = {
      "tokens": join((t.conversation.token_ids for t in texts), ids),
      "offsets": np.cumsum([0, *sizes]),
      "mask": join((t.conversation.mask for t in texts), bool),
      "top_ids": join((t.top_ids for t in texts), ids),
      "top_log_probs": join((t.top_log_probs for t in texts), log_probs),
      "log_tail": join((t.log_tail for t in texts), np.float32),
    }
    for name in self._settings["taps"]:
      wanted = (t.features[name] for t in texts)
      arrays[_FEATURE + name] = join(wanted, kept)
    stated = [
      {
        "digest": digest_of(c),
        "id": c.id,
        "source": c.source,
        "temperature": c.temperature,
        "prompt_id": c.prompt_id,
        "answered": int(c.mask.sum()),
      }
      for c in (t.conversation for t in texts)
    ]
    return arrays, {"texts": json.dumps(stated)}


@contextlib.contextmanager
def claim(
  path: Path, settings: dict[str, Any], shard_bytes: int = SHARD_BYTES
) -> Generator[StoreWriter]:
  """Makes a store, or goes on with the one that the same settings left.

  What waits is written at the end, and where the block is left by an error or
  an interrupt too.

  Args:
    path: of the folder.
    settings: with "model" (of `identify`), "top_k", "taps", "log_probs_dtype"
      and "features_dtype".
    shard_bytes: about so many a shard.

  Raises:
    ValueError: it cannot be written, was made with other settings (what
      differs is named), or another process writes it.
  """
  settings = json.loads(json.dumps(settings))
  try:
    path.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(path / ".lock")
    lock.acquire(timeout=0)
  except filelock.Timeout as error:
    raise ValueError(f"another run is writing to {path}") from error
  except OSError as error:
    raise ValueError(f"cannot write to {path}: {error.strerror}") from error
  with lock:
    writer = StoreWriter(path, settings, shard_bytes)
    try:
      yield writer
    finally:
      writer.flush()


def make_store(path: Path, settings: dict[str, Any]) -> None:
  """Makes a store without texts, unless the same settings left one there.

  Args:
    settings: as for `claim`.

  Raises:
    ValueError: as `claim`.
  """
  with claim(path, settings):
    if not (path / MANIFEST).exists():
      _write_manifest(path, json.loads(json.dumps(settings)), [])


def digest_of(conversation: Conversation) -> str:
  """Names a text by its tokens and spans."""
  content = repr((conversation.token_ids, conversation.answers)).encode()
  return hashlib.sha256(content).hexdigest()[:16]


def _read_manifest(path: Path) -> dict[str, Any]:
  try:
    manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
    if {"settings", "shards"} <= manifest.keys():
      return manifest
    reason = "it lacks fields"
  except (OSError, ValueError, AttributeError) as error:
    reason = getattr(error, "strerror", None) or str(error)
  raise ValueError(
    f"{path} is no store of labelled texts: {MANIFEST}: {reason}"
  )


def _write_manifest(
  path: Path, settings: dict[str, Any], shards: list[str]
) -> None:
  text = json.dumps({"settings": settings, "shards": shards}, indent=2)
  temporary = path / f"{MANIFEST}.part"
  temporary.write_text(text + "\n", encoding="utf-8")
  os.replace(temporary, path / MANIFEST)


def _open(file: Path) -> Any:
  try:
    return safe_open(file, framework="numpy")
  except (OSError, SafetensorError) as error:
    raise ValueError(f"cannot read {file}: {error}") from error


def _entries(number: int, shard: Any) -> Iterator[Entry]:
  offsets = shard.get_tensor("offsets").tolist()
  stated = json.loads(shard.metadata()["texts"])
  for i, known in enumerate(stated):
    yield Entry(**known, shard=number, start=offsets[i], end=offsets[i + 1])
