"""Top-k log-probabilities that another system wrote, as labels.

A line of JSON a text, in one of two forms:

1. {"token_ids": [L], "top_ids": [L][k], "top_logprobs": [L][k]}, and where it
   is known "answers": [[start, end], ...]. Entry i is the law *of* token i,
   given those before it; null where there is none.
2. OpenAI's chat completion, or one of its choices: {"logprobs": {"content":
   [{"token": TEXT, "logprob": x, "top_logprobs": [{"token": TEXT, "logprob":
   x}, ...]}, ...]}}, with the prompt beside it as "prompt_token_ids",
   "messages" or "prompt". A token is found by "token_id" where the entry has
   one, by vLLM's "token_id:N", by "bytes", or by its text.

Log-probabilities are natural logarithms of the whole softmax at temperature 1.
"""

import dataclasses
import functools
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from specjax.evaluation import text_files
from specjax.text import Tokenizer
from specjax.training.data.conversations import Conversation, prompt_id
from specjax.training.data.store import Labelled, claim

_ID = "token_id:"
_SUM_SLACK = 1e-2  # of probabilities that were rounded
Law = dict[int, float]  # log-probability of each token


@dataclasses.dataclass(frozen=True)
class _Text:
  """Tokens, and the law of each token where it is known."""

  token_ids: list[int]
  laws: list[Law | None]
  answers: tuple[tuple[int, int], ...]
  prompt: str


def read_traces(
  path: Path,
  vocab_size: int,
  top_k: int,
  tokenizer: Tokenizer | None = None,
) -> list[Labelled]:
  """Labelled texts of a file, of either form; see the module.

  A position is learnt where its next token is an answer's whose law is known.

  Args:
    path: JSONL.
    vocab_size: V.
    top_k: K, at most so many tokens of a law are kept.
    tokenizer: the target's; form 1 needs none.

  Raises:
    ValueError: a line of another form, a token that is not in the vocabulary
      or is several of its tokens, or probabilities that sum to more than 1,
      by number.
  """
  lines = text_files.read(path).split("\n")
  reader = _Reader(tokenizer, vocab_size)
  found = []
  for number, line in enumerate(lines, 1):
    if not line.strip():
      continue
    try:
      text = reader.read(json.loads(line))
      found.append(_labelled(text, f"{path.name}-{number}", top_k))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
      reason = f"no {error}" if isinstance(error, KeyError) else error
      raise ValueError(f"{path}, line {number}: no trace ({reason})") from error
  if not found:
    raise ValueError(f"{path} holds no trace")
  return found


def add_traces(
  path: Path, traces: Sequence[Labelled], model: dict[str, Any]
) -> None:
  """Stores traces, in a store of their own.

  Args:
    path: of the store's folder.
    traces: of `read_traces`, all of one K.
    model: what made them: of `identify`, or {"name": ..., "vocab_size": V}
      where it is not at hand. Stores that state the same may be mixed.

  Raises:
    ValueError: a store of other settings, or traces of several K.
  """
  sizes = {trace.top_ids.shape[1] for trace in traces}
  if len(sizes) != 1:
    raise ValueError(f"traces of {sorted(sizes)} tokens a law: give one K")
  settings = {
    "model": dict(model),
    "top_k": sizes.pop(),
    "taps": [],
    "log_probs_dtype": "float32",
    "features_dtype": "float32",
  }
  with claim(path, settings) as writer:
    for trace in traces:
      writer.add(trace)


class _Reader:
  """Reads entries with one vocabulary."""

  def __init__(self, tokenizer: Tokenizer | None, vocab_size: int):
    self._tokenizer, self._vocab_size = tokenizer, vocab_size

  def read(self, entry: dict[str, Any]) -> _Text:
    if "top_ids" in entry:
      return self._plain(entry)
    choice = entry
    if "choices" in entry:
      (choice,) = entry["choices"]
    if "logprobs" in choice:
      return self._openai(entry, choice["logprobs"]["content"])
    raise ValueError(
      "neither token_ids with top_ids and top_logprobs nor logprobs.content"
    )

  def _plain(self, entry: dict[str, Any]) -> _Text:
    tokens = [self._known(i) for i in entry["token_ids"]]
    ids, log_probs = entry["top_ids"], entry["top_logprobs"]
    if not len(tokens) == len(ids) == len(log_probs):
      raise ValueError(
        f"{len(tokens)} token_ids, {len(ids)} top_ids and {len(log_probs)}"
        " top_logprobs"
      )
    laws = [
      None
      if a is None or b is None
      else dict(zip(map(self._known, a), map(float, b), strict=True))
      for a, b in zip(ids, log_probs, strict=True)
    ]
    answers = entry.get("answers", [[0, len(tokens)]])
    first = min((int(start) for start, _ in answers), default=0)
    prompt = str(entry.get("prompt_id", tokens[:first] or tokens))
    return _Text(
      tokens, laws, tuple((int(a), int(b)) for a, b in answers), prompt
    )

  def _openai(self, entry: dict[str, Any], content: list[Any]) -> _Text:
    prompt, name = self._prompt(entry)
    answer, laws = [], []
    for item in content:
      token = self._find(item)
      top = item["top_logprobs"]
      law = {self._find(other): float(other["logprob"]) for other in top}
      laws.append({token: float(item["logprob"]), **law})
      answer.append(token)
    span = (len(prompt), len(prompt) + len(answer))
    return _Text([*prompt, *answer], [None] * len(prompt) + laws, (span,), name)

  def _prompt(self, entry: dict[str, Any]) -> tuple[list[int], str]:
    """(token ids, what names it for splits)."""
    if "prompt_token_ids" in entry:
      ids = [self._known(i) for i in entry["prompt_token_ids"]]
      return ids, repr(ids)
    if self._tokenizer is None:
      raise ValueError("without a tokenizer it needs prompt_token_ids")
    if "messages" in entry:
      messages = entry["messages"]
      users = [m["content"] for m in messages if m["role"] == "user"]
      return self._tokenizer.encode_chat(messages), users[0]
    if "prompt" in entry:
      return self._tokenizer.encode(entry["prompt"]), entry["prompt"]
    raise ValueError("no prompt_token_ids, messages or prompt")

  def _find(self, item: dict[str, Any]) -> int:
    text = item.get("token", "")
    if "token_id" in item:
      return self._known(item["token_id"])
    if text.startswith(_ID):
      return self._known(int(text.removeprefix(_ID)))
    stated = item.get("bytes")
    found = self._by_bytes.get(
      text.encode() if stated is None else bytes(stated)
    )
    if not found:
      raise ValueError(f"{text!r:.40} is no token of the vocabulary")
    if len(found) > 1:
      raise ValueError(
        f"{text!r:.40} is {len(found)} tokens of the vocabulary: give token_id"
      )
    return self._known(found[0])

  def _known(self, index: Any) -> int:
    if type(index) is not int or not 0 <= index < self._vocab_size:
      raise ValueError(
        f"{index!r:.20} is no token of a vocabulary of {self._vocab_size}"
      )
    return index

  @functools.cached_property
  def _by_bytes(self) -> dict[bytes, list[int]]:
    if self._tokenizer is None:
      raise ValueError("without a tokenizer every token needs its token_id")
    table: dict[bytes, list[int]] = {}
    for index, piece in enumerate(self._tokenizer.token_bytes()):
      table.setdefault(piece, []).append(index)
    table.pop(b"", None)
    return table


def _labelled(text: _Text, name: str, top_k: int) -> Labelled:
  """Moves each law to the token before it, where it is fed.

  tokens   p0 p1 a0 a1       laws of       a0 a1
  stored   .  a0 a1 .        at            p1 a0
  """
  size = len(text.token_ids)
  conversation = Conversation(
    id=name,
    source="trace",
    token_ids=tuple(text.token_ids),
    answers=text.answers,
    temperature=None,
    prompt_id=prompt_id(text.prompt),
  )
  ids = np.zeros((size, top_k), np.int32)
  log_probs = np.full((size, top_k), -np.inf, np.float32)
  log_tail = np.zeros(size, np.float32)
  known = np.zeros(size + 1, bool)
  for start, end in text.answers:
    known[max(start, 1) : end] = True
  for place, law in enumerate(text.laws):
    if not law or not place:
      known[place] = False
      continue
    rank = sorted(law.items(), key=lambda pair: (-pair[1], pair[0]))[:top_k]
    tail = 1 - sum(math.exp(x) for _, x in rank)
    if not tail >= -_SUM_SLACK:
      raise ValueError(f"the law of token {place} sums to {1 - tail:.3f}")
    ids[place - 1, : len(rank)] = [i for i, _ in rank]
    log_probs[place - 1, : len(rank)] = [x for _, x in rank]
    log_tail[place - 1] = math.log(tail) if tail > 0 else -math.inf
  edges = np.flatnonzero(np.diff(known[:size], prepend=False, append=False))
  spans = tuple((int(a), int(b)) for a, b in edges.reshape(-1, 2))
  conversation = dataclasses.replace(conversation, answers=spans)
  return Labelled(conversation, ids, log_probs, log_tail)
