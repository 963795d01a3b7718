"""Labels: one pass of the target over each text, by teacher forcing.

The law after every token, as its likeliest K tokens and the mass of the rest,
and the features that a drafter reads.
"""

import collections
import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from specjax import passes
from specjax.api.lanes import bucket
from specjax.checkpoints.loaded import LoadedModel
from specjax.filters import largest
from specjax.training.data.conversations import Conversation
from specjax.training.data.identity import identify
from specjax.training.data.store import Labelled, claim, digest_of
from specjax.training.data.writing import Progress
from specjax.training.types import Teacher
from specjax.types import Model, Pass, Slots

_LOOKAHEAD = 128  # texts whose lengths are sorted


@dataclasses.dataclass(frozen=True)
class Labelling:
  """What is stored of a target.

  Attributes:
    top_k: likeliest tokens of a law; the vocabulary's size or more is all.
    taps: names of the target's features.
    log_probs_dtype: of their log-probabilities, "float16" or "float32".
    features_dtype: of features, "bfloat16", "float16" or "float32".
    tokens_a_pass: about so many tokens run at once. Changes no label.

  Raises:
    ValueError: a number or a name out of its range.
  """

  top_k: int = 20
  taps: tuple[str, ...] = ()
  log_probs_dtype: str = "float16"
  features_dtype: str = "bfloat16"
  tokens_a_pass: int = 1536

  def __post_init__(self):
    for name in ("top_k", "tokens_a_pass"):
      if getattr(self, name) < 1:
        raise ValueError(
          f"{name} must be at least 1, got {getattr(self, name)}"
        )
    for name, known in (
      ("log_probs_dtype", ("float16", "float32")),
      ("features_dtype", ("bfloat16", "float16", "float32")),
    ):
      if getattr(self, name) not in known:
        raise ValueError(f"{name} is one of {known}, got {getattr(self, name)}")

  def settings(self, target: LoadedModel) -> dict[str, Any]:
    """What a store of these labels states."""
    return {
      "model": identify(target),
      "top_k": min(self.top_k, target.model.vocab_size),
      "taps": list(self.taps),
      "log_probs_dtype": self.log_probs_dtype,
      "features_dtype": self.features_dtype,
    }


def label(
  target: LoadedModel,
  conversations: Sequence[Conversation],
  path: Path,
  labelling: Labelling | None = None,
  say: Callable[[str], None] = lambda line: None,
) -> Progress:
  """Labels the texts that a store lacks.

  Args:
    target: whose laws are stored.
    conversations: of any source; one that is stored already is skipped, so the
      same call goes on with what a stopped one left.
    path: of the store's folder, made where it is not there.
    labelling: what to store; None is Labelling().
    say: gets progress with the rate and the time left, a line at a time.

  Returns:
    counts of this run.

  Raises:
    ValueError: a store of other settings, a text longer than the context or
      with a token outside the vocabulary, an unknown tap.
  """
  labelling = Labelling() if labelling is None else labelling
  _check(target, conversations, labelling)
  with claim(path, labelling.settings(target)) as writer:
    missing = [c for c in conversations if digest_of(c) not in writer.digests]
    done = len(conversations) - len(missing)
    progress = Progress(len(conversations), done, say, unit="texts")
    for labelled in labels(target, missing, labelling):
      writer.add(labelled)
      progress.done += 1
      progress.tokens += len(labelled.conversation.token_ids)
      progress.tell()
  progress.tell(last=True)
  return progress


def labels(
  target: LoadedModel,
  conversations: Sequence[Conversation],
  labelling: Labelling,
) -> Iterator[Labelled]:
  """Labels of texts, in their order."""
  for first in range(0, len(conversations), _LOOKAHEAD):
    texts = conversations[first : first + _LOOKAHEAD]
    by_size = collections.defaultdict(list)
    for place, text in enumerate(texts):
      by_size[bucket(len(text.token_ids))].append(place)
    found: dict[int, Labelled] = {}
    for size, places in sorted(by_size.items()):
      rows = max(1, labelling.tokens_a_pass // size)
      for start in range(0, len(places), rows):
        at = places[start : start + rows]
        part = [texts[i] for i in at]
        run = _run(target, part, labelling, rows, size)
        found.update(zip(at, run, strict=True))
    yield from (found[place] for place in range(len(texts)))


def _run(
  target: LoadedModel,
  texts: Sequence[Conversation],
  labelling: Labelling,
  rows: int,
  size: int,
) -> Iterator[Labelled]:
  """One pass of `rows` rows: texts at the left, zeros behind and below."""
  tokens = np.zeros((rows, size), np.int32)
  for line, text in zip(tokens, texts, strict=False):
    line[: len(text.token_ids)] = text.token_ids
  top_k = min(labelling.top_k, target.model.vocab_size)
  taught = teach(
    target.model, target.params, jnp.asarray(tokens), top_k, labelling.taps
  )
  teacher, features = jax.device_get((dict(vars(taught[0])), taught[1]))
  kept = jnp.dtype(labelling.features_dtype)
  for row, text in enumerate(texts):
    at = row, slice(len(text.token_ids))
    yield Labelled(
      conversation=text,
      top_ids=teacher["ids"][at],
      top_log_probs=teacher["log_probs"][at],
      log_tail=teacher["log_tail"][at],
      features={name: x[at].astype(kept) for name, x in features.items()},
    )


@functools.partial(jax.jit, static_argnames=("model", "top_k", "taps"))
def teach(
  model: Model,
  params: PyTree,
  tokens: Int[Array, "B L"],
  top_k: int,
  taps: tuple[str, ...] = (),
) -> tuple[Teacher, dict[str, Float[Array, "B L F"]]]:
  """(laws after every token, features at it) in one causal pass.

  Padding stands at the right, where no token before it looks.
  """
  run = read(model, params, tokens, taps)
  return likeliest(run.logits, top_k), run.taps


def read(
  model: Model,
  params: PyTree,
  tokens: Int[Array, "B L"],
  taps: tuple[str, ...] = (),
) -> Pass:
  """One causal pass over whole texts."""
  places = jnp.arange(tokens.shape[1], dtype=jnp.int32)[None]
  positions = jnp.broadcast_to(places, tokens.shape)
  slots = Slots(tokens, positions, passes.causal(positions))
  cache = model.init_cache(tokens.shape[0], 0)
  return model(params, slots, cache, taps=taps)


def likeliest(logits: Float[Array, "*b V"], top_k: int) -> Teacher:
  """The law of logits by its likeliest tokens and the mass of all others.

  The mass is summed over the others, not taken from 1, so that a small one
  keeps its digits. Of equal logits the lower ids come first.
  """
  logits = logits.astype(jnp.float32)
  log_probs = logits - jax.nn.logsumexp(logits, -1, keepdims=True)
  top, ids = largest(log_probs, top_k)
  last = top[..., -1:]
  below = jnp.where(log_probs < last, jnp.exp(log_probs), 0.0).sum(-1)
  ties = (log_probs == last).sum(-1) - (top == last).sum(-1)
  tail = below + ties * jnp.exp(last[..., 0])
  return Teacher(ids=ids, log_probs=top, log_tail=jnp.log(tail))


def _check(
  target: LoadedModel,
  conversations: Sequence[Conversation],
  labelling: Labelling,
) -> None:
  model = target.model
  for text in conversations:
    if not 1 <= len(text.token_ids) <= model.max_positions:
      raise ValueError(
        f"text {text.id} has {len(text.token_ids)} tokens and {target.name}"
        f" reads 1 to {model.max_positions}"
      )
    if not 0 <= min(text.token_ids) <= max(text.token_ids) < model.vocab_size:
      raise ValueError(
        f"text {text.id} has a token outside the vocabulary of"
        f" {model.vocab_size}"
      )
  known = getattr(model, "tap_names", labelling.taps)
  if unknown := sorted(set(labelling.taps) - set(known)):
    raise ValueError(
      f"no tap {unknown[0]!r}: {target.name} has {known[0]} to {known[-1]}"
    )
