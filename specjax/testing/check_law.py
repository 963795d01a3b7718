"""Checks that the output has the target's law, by chi-square."""

import functools

import jax
import numpy as np

from specjax import sampling
from specjax.testing import cases, runs, tables
from specjax.testing.cases import SETTINGS, Case, NotApplicable
from specjax.testing.check_identity import offsets_seen
from specjax.testing.chisquare import assert_conditional_law, assert_law
from specjax.testing.oracle import Setting, conditional_laws, joint_law
from specjax.types import EMITTED, Streams

_ROWS = 1 << 17
_NEW = 9
_PROMPT = (2, 0, 1, 3, 0, 1)
_WINDOWS = ((0, 1, 2, 3, 4), (0, 2, 4, 6, 8), (4, 5, 6, 7, 8))
LEAST_TIMES = 500
_COLD = Setting(temperature=1e-8)


@functools.lru_cache(maxsize=2)
def law_run(case: Case, setting: Setting | None = None):
  """(rows on the host, [(setting, budget)] and each row's group).

  One prompt, 9 new tokens, half of the rows with a budget of 1, so that 5
  tokens span three rounds, half with the whole depth. With a setting, that one
  alone.
  """
  model, target = cases.small_world()
  settings = SETTINGS if setting is None else (setting,) * len(SETTINGS)
  groups = [(s, b) for s in settings for b in (1, case.depth)]
  group = np.arange(_ROWS) % len(groups)
  rows = runs.run(
    case.engine(model, case.depth),
    case.params(model, target),
    np.broadcast_to(np.asarray(_PROMPT, np.int32), (_ROWS, len(_PROMPT))),
    new=_NEW,
    size=len(_PROMPT) + _NEW,
    settings=[groups[g][0] for g in group],
    max_draft=np.asarray([b for _, b in groups])[group],
  )
  return rows, groups, group


def _claimed(case: Case) -> None:
  if not case.is_lossless:
    raise NotApplicable("the rule is lossy")


def joint(case: Case) -> str:
  """Joint laws of five tokens, next to one another and apart, over at least
  three rounds."""
  _claimed(case)
  model, target = cases.small_world()
  rows, groups, group = law_run(case)
  text = rows.tokens[:, len(_PROMPT) :]
  least = 1.0
  for number, (setting, budget) in enumerate(groups):
    laws = conditional_laws(np.asarray(target["table"]), setting)
    whole = joint_law(laws, _PROMPT, _NEW)
    for window in _WINDOWS:
      others = tuple(i for i in range(_NEW) if i not in window)
      cells = tuple(text[group == number][:, window].T)
      counts = np.zeros((model.vocab_size,) * len(window), np.int64)
      np.add.at(counts, cells, 1)
      what = f"joint law of tokens {window}, budget {budget}, {setting}"
      p_value = assert_law(counts, whole.sum(others), what=what)
      least = min(least, p_value)
  return f"{_ROWS} rows, least p {least:.3f}"


def offsets_of(rows) -> np.ndarray:
  """At which offset of its round each new token was emitted: [B, new]."""
  emitted = rows.history[:, :, EMITTED]
  ends = np.cumsum(emitted, 1)
  new = np.arange(int((rows.length - rows.prompt_length).max()))
  round_of = (ends[:, :, None] <= new[None, None]).sum(1)
  round_of = np.minimum(round_of, emitted.shape[1] - 1)
  return new[None] - np.take_along_axis(ends - emitted, round_of, 1)


def count_contexts(tokens, first: int, order: int, vocab: int, chosen):
  """counts[context, token] of the chosen new tokens: [V] * order + [V]."""
  counts = np.zeros((vocab,) * (order + 1), np.int64)
  new = chosen.shape[1]
  cells = [
    tokens[:, first - back : first - back + new][chosen]
    for back in range(order, -1, -1)
  ]
  np.add.at(counts, tuple(cells), 1)
  return counts


def by_offset(case: Case) -> str:
  """The law of each position of the round apart, given the tokens before."""
  _claimed(case)
  if not case.tokenwise:
    raise NotApplicable("the rule looks ahead: only joint laws hold")
  model, target = cases.small_world()
  rows, groups, group = law_run(case)
  offset, vocab = offsets_of(rows), model.vocab_size
  least = 1.0
  for number, (setting, budget) in enumerate(groups):
    laws = conditional_laws(np.asarray(target["table"]), setting).reshape(
      -1, vocab
    )
    for at in range(budget + 1):
      chosen = (offset == at) & (group == number)[:, None]
      counts = count_contexts(
        rows.tokens, len(_PROMPT), model.order, vocab, chosen
      )
      what = f"law at offset {at}, budget {budget}, {setting}"
      counts = counts.reshape(-1, vocab)
      least = min(least, assert_conditional_law(counts, laws, what=what))
  return f"offsets 0 to {case.depth}, least p {least:.3f}"


def coverage(case: Case) -> str:
  """The law run reached every outcome at every depth at least 500 times."""
  rows, _, _ = law_run(case)
  model, _ = cases.small_world()
  seen = offsets_seen(rows, case.make(model, case.depth))
  times = {}
  for depth in range(1, case.depth + 1):
    kept = [n for (_, a), n in seen.items() if a >= depth]
    refused = [n for (d, a), n in seen.items() if a == depth - 1 < d]
    times[f"accepted at {depth}"] = sum(kept)
    times[f"refused at {depth}"] = sum(refused)
    times[f"all {depth} accepted"] = seen.get((depth, depth), 0)
  rare = {name: n for name, n in times.items() if n < LEAST_TIMES}
  assert not rare, f"reached fewer than {LEAST_TIMES} times: {rare}"
  return f"depths 1 to {case.depth}, rarest {min(times.values())} times"


def edges(case: Case) -> str:
  """The law where laws are equal, an ulp apart, zero, NaN or -inf."""
  target, draft = tables.edge_tables()
  model = tables.TableModel(5, 1)
  params = case.params(model, target)
  if isinstance(params.draft, dict) and "table" in params.draft:
    params = params.replace(draft=draft)
  settings = (*SETTINGS, _COLD, cases.GREEDY)
  number = 1 << 14
  prompts = np.stack([np.arange(number) // 7 % 5, np.arange(number) % 5], 1)
  prompts = np.concatenate([prompts, prompts[:, ::-1], prompts], 1)
  group = np.arange(number) // 35 % len(settings)
  rows = runs.run(
    case.engine(model, case.depth),
    params,
    prompts.astype(np.int32),
    new=8,
    size=14,
    settings=[settings[g] for g in group],
  )
  assert (rows.tokens >= 0).all() and (rows.tokens < 5).all(), "no such token"
  least = 1.0
  for number, setting in enumerate(settings):
    laws = conditional_laws(np.asarray(target["table"]), setting)
    chosen = np.repeat((group == number)[:, None], 8, 1)
    counts = count_contexts(rows.tokens, 6, 1, 5, chosen)
    if case.is_lossless or setting in (_COLD, cases.GREEDY):
      least = min(
        least, assert_conditional_law(counts, laws, what=f"{setting}")
      )
    outside = counts[laws == 0.0].sum()
    assert not outside, f"{outside} tokens outside the support, {setting}"
  return f"least p {least:.3f}"


def streams(case: Case) -> str:
  """Numbers of two purposes, nodes or rounds are independent and uniform."""
  del case
  keys = runs.row_keys(np.arange(20000))
  zero = np.zeros((20000,), np.int32)
  here, later = (Streams(keys, jax.numpy.asarray(zero + n)) for n in (7, 8))
  node = jax.numpy.broadcast_to(jax.numpy.arange(3), (20000, 3))
  purposes = [p for p in sampling.Purpose if p != sampling.Purpose.TARGET]
  drawn = {
    (p.name, when): np.asarray(sampling.round_uniform(stream, p, node))
    for p in purposes
    for when, stream in (("now", here), ("next", later))
  }
  drawn["TARGET", ""] = np.asarray(sampling.target_uniform(keys, node + 7))
  columns = {
    (*name, i): (values[:, i] * 8).astype(int)
    for name, values in drawn.items()
    for i in range(3)
  }
  flat = np.full((8, 8), 1 / 64)
  names = list(columns)
  for i, one in enumerate(names):
    for other in names[:i]:
      counts = np.zeros((8, 8), np.int64)
      np.add.at(counts, (columns[one], columns[other]), 1)
      assert_law(counts, flat, 1e-8, f"{one} with {other}")
  return f"{len(names)} streams, all pairs"
