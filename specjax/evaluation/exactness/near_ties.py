"""Greedy outputs compared: a near-tie of the target, or a fault.

Passes of different widths round differently, so two right programs may part
where the target's two largest logits are all but equal.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from specjax import passes
from specjax.evaluation.records import Answer, Mode
from specjax.models.decoder import Transformer
from specjax.types import Model, Slots

GAP = 1e-3  # logits closer than this are a near-tie
TOKENS_A_NEAR_TIE = 2000  # more than one in so many is a fault
_CHUNK = 32
_BUCKET = 64


@dataclasses.dataclass(frozen=True)
class Difference:
  """Where two greedy outputs of one prompt part.

  Attributes:
    position: index of the first new token that differs.
    plain, other: the tokens there; None where an output ends.
    gap: by how much the largest logit exceeds the lesser of the two tokens',
      in float32 by passes of one token; None where an output ends.
    kind: "near-tie" where the gap is below GAP, else "fault".
  """

  position: int
  plain: int | None
  other: int | None
  gap: float | None
  kind: Literal["near-tie", "fault"]


class Pair(NamedTuple):
  """Two greedy outputs of one prompt; `label` names it in a message."""

  label: str
  prompt_ids: Sequence[int]
  plain_ids: Sequence[int]
  other_ids: Sequence[int]


@dataclasses.dataclass(frozen=True)
class Identity:
  """How many pairs are the same, token for token, and how the others part.

  Attributes:
    compared: pairs.
    equal: pairs without a difference.
    tokens: compared, up to and with the first difference of each pair.
    near_ties: differences that the target itself all but leaves open.
    differences: (label, difference) of each pair that differs.
    left_out: later turns of a conversation that had already parted.
  """

  compared: int
  equal: int
  tokens: int
  near_ties: int
  differences: tuple[tuple[str, Difference], ...]
  left_out: int = 0

  @property
  def faults(self) -> list[str]:
    """One line each; none where the outputs are the same but for near-ties."""
    found = [
      f"{label}, token {d.position + 1}: {d.other} is not {d.plain}"
      + ("" if d.gap is None else f", {d.gap:.2g} below the largest logit")
      for label, d in self.differences
      if d.kind == "fault"
    ]
    allowed = max(1, self.tokens // TOKENS_A_NEAR_TIE)
    if self.near_ties > allowed:
      found.append(
        f"{self.near_ties} near-ties in {self.tokens} tokens: more than one in"
        f" {TOKENS_A_NEAR_TIE}"
      )
    return found

  def to_json(self) -> dict[str, Any]:
    """Its fields and the faults."""
    parts = [
      {"label": label, **dataclasses.asdict(d)} for label, d in self.differences
    ]
    return {
      **dataclasses.asdict(self),
      "differences": parts,
      "faults": self.faults,
    }


def classify(
  model: Model,
  params: PyTree,
  prompt_ids: Sequence[int],
  plain_ids: Sequence[int],
  other_ids: Sequence[int],
) -> Difference | None:
  """The first difference of two greedy outputs; None where there is none.

  Args:
    model, params: the target.
    prompt_ids: at least one token.
    plain_ids, other_ids: the new tokens of plain decoding and of the other.
  """
  shared = min(len(plain_ids), len(other_ids))
  parts = [i for i in range(shared) if plain_ids[i] != other_ids[i]]
  if not parts and len(plain_ids) == len(other_ids):
    return None
  if not parts:
    one, other = (
      ids[shared] if len(ids) > shared else None
      for ids in (plain_ids, other_ids)
    )
    return Difference(shared, one, other, None, "fault")
  at = parts[0]
  one, other = plain_ids[at], other_ids[at]
  text = [*prompt_ids, *plain_ids[:at]]
  logits = teacher_forced_logits(model, params, text, len(prompt_ids))
  gap = float(logits.max() - min(logits[one], logits[other]))
  kind = "near-tie" if gap < GAP else "fault"
  return Difference(at, one, other, gap, kind)


def compare(model: Model, params: PyTree, pairs: Iterable[Pair]) -> Identity:
  """Counts of pairs, each looked at up to its first difference."""
  compared = tokens = 0
  differences = []
  for pair in pairs:
    compared += 1
    difference = classify(model, params, *pair[1:])
    if difference is None:
      tokens += len(pair.plain_ids)
    else:
      tokens += difference.position + 1
      differences.append((pair.label, difference))
  near = sum(d.kind == "near-tie" for _, d in differences)
  return Identity(
    compared=compared,
    equal=compared - len(differences),
    tokens=tokens,
    near_ties=near,
    differences=tuple(differences),
  )


def compare_records(
  model: Model,
  params: PyTree,
  answers: Iterable[Answer],
  prompt_ids: Callable[[Answer], Sequence[int]],
) -> dict[str, Identity]:
  """The greedy modes of this project against plain decoding, by mode's name.

  Answers are paired by question, turn and repeat. Once a conversation has
  parted, its later turns answer other prompts and are left out.

  Args:
    model, params: the target.
    answers: records of a run.
    prompt_ids: tokens of an answer's prompt, the conversation before it and an
      answer's given beginning included.
  """
  plain: dict[tuple, Answer] = {}
  others: dict[str, list[Answer]] = {}
  for answer in answers:
    mode = answer.mode
    if mode.temperature or mode.system != Mode("").system:
      continue
    if mode.is_plain:
      plain[answer.key[1:]] = answer
    else:
      others.setdefault(mode.name, []).append(answer)
  found = {}
  for name, ours in others.items():
    parted, pairs, left_out = set(), [], 0
    for answer in sorted(ours, key=lambda a: a.turn):
      beside = plain.get(answer.key[1:])
      conversation = answer.question_id, answer.repeat
      if beside is None:
        continue
      if conversation in parted:
        left_out += 1
        continue
      if answer.token_ids != beside.token_ids:
        parted.add(conversation)
      label = f"{answer.question_id}, turn {answer.turn + 1}"
      pairs.append(
        Pair(label, prompt_ids(answer), beside.token_ids, answer.token_ids)
      )
    identity = compare(model, params, pairs)
    found[name] = dataclasses.replace(identity, left_out=left_out)
  return found


def teacher_forced_logits(
  model: Model, params: PyTree, text: Sequence[int], prompt_length: int
) -> np.ndarray:
  """Logits [V] after a text, in float32, a token a pass behind its prompt."""
  if isinstance(model, Transformer):
    model = Transformer(dataclasses.replace(model.config, dtype="float32"))
  params = jax.tree.map(_to_float32, params)
  size = -(-len(text) // _BUCKET) * _BUCKET  # few sizes, few programs
  tokens = np.zeros((1, size), np.int32)
  tokens[0, : len(text)] = text
  logits = _force(
    model,
    params,
    jnp.asarray(tokens),
    jnp.asarray([prompt_length - 1], jnp.int32),
    jnp.asarray([len(text) - 1], jnp.int32),
  )
  return np.asarray(logits)


def _to_float32(x):
  return x.astype(jnp.float32) if jnp.issubdtype(x.dtype, jnp.floating) else x


@functools.partial(jax.jit, static_argnames="model")
def _force(model: Model, params, tokens, prompt_end, last):
  """Logits at `last`; up to `prompt_end` chunks are read, then one token."""
  cache = model.init_cache(1, tokens.shape[1])

  def read(cache, until, size):
    def missing(cache):
      return (cache.length < until)[0]

    def step(cache):
      return passes.read_text(model, params, tokens, cache, until, size)[0]

    return jax.lax.while_loop(missing, step, cache)

  cache = read(cache, prompt_end, _CHUNK)
  cache = read(cache, last, 1)
  fed = passes.gather_tokens(tokens, last, 1)
  slots = Slots(fed, last[:, None], passes.causal(fed))
  return model(params, slots, cache).logits[0, 0].astype(jnp.float32)
