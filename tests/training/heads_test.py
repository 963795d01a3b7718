"""Each head learns what it will draft, where it will draft it, and no more."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from specjax.models.heads import Blockwise, Medusa, vocabulary_rows
from specjax.testing import tables
from specjax.training.heads import HeadsTrainee, learnable
from specjax.training.losses import Loss
from specjax.training.teacher import top_k
from specjax.training.types import Batch, Frozen, Sum, Trainee
from specjax.types import Params

B, L, D, V, K = 4, 10, 5, 7, 3
PROMPTS, ENDS = (3, 1, 4, 6), (8, 10, 5, 6)  # of the answers; the last has none
IDS = jnp.asarray([0, 1, 4, 5])
MEDUSA, BLOCKWISE = Medusa(D, V, K), Blockwise(D, V, 2, K)
TRAINEES = [
  HeadsTrainee(MEDUSA, Loss("sft")),
  HeadsTrainee(BLOCKWISE, Loss("forward_kl"), decay=0.5),
  HeadsTrainee(
    Medusa(D, 4, K, 2, False), Loss("total_variation"), vocab_size=V
  ),
]
NAMES = ["medusa", "blockwise", "reduced"]


def _normal(seed, *shape):
  return jax.random.normal(jax.random.key(seed), shape)


def _batch(seed=0):
  index = np.arange(L)[None] + 1
  answer = (index >= np.c_[list(PROMPTS)]) & (index < np.c_[list(ENDS)])
  return Batch(
    tokens=jax.random.randint(jax.random.key(seed), (B, L), 0, V),
    mask=jnp.asarray(answer),
    teacher=top_k(_normal(seed + 1, B, L, V), 5),
    features={"hidden": _normal(seed + 2, B, L, D)},
  )


def _setup(trainee):
  """(frozen, weights that are not at their start)."""
  reduced = trainee.vocab_size is not None
  target = {"embed": {"embedding": _normal(3, V, D)}}
  frozen = Frozen(target, IDS if reduced else None)
  params = trainee.init(jax.random.key(4), frozen)
  noise = iter(range(5, 100))
  return frozen, jax.tree.map(
    lambda x: x + 0.3 * _normal(next(noise), *x.shape), params
  )


@functools.partial(jax.jit, static_argnames="trainee")
def _slope(trainee, params, frozen, batch, key):
  def total(params):
    figures = trainee.loss(params, frozen, batch, key)
    return figures["loss"].total, figures

  return jax.grad(total, has_aux=True)(params)


def _pairs(mask):
  """(row, t, k) at which head k learns, by the words of `learnable`."""
  for row, t, k in np.ndindex(B, L, K):
    wanted = range(t + 1, t + k + 2)
    if all(j < L and mask[row, j] for j in wanted):
      yield row, t, k


def test_a_head_learns_where_it_drafts():
  mask = jnp.asarray([[0, 0, 1, 1, 1, 0]], bool)
  found = learnable(mask, 3)[:, 0].astype(int).tolist()
  assert found == [
    [0, 1, 1, 1, 0, 0],
    [0, 1, 1, 0, 0, 0],
    [0, 1, 0, 0, 0, 0],
  ]


@pytest.mark.parametrize("trainee", TRAINEES, ids=NAMES)
def test_only_answers_are_learnt(trainee):
  """Other positions may hold anything: not a bit of loss or slope changes."""
  assert isinstance(trainee, Trainee) and trainee.depth == K
  frozen, params = _setup(trainee)
  batch, other, key = _batch(), _batch(50), jax.random.key(0)
  wanted = _slope(trainee, params, frozen, batch, key)
  read = learnable(batch.mask, 1)[0][..., None]
  said = jnp.pad(batch.mask, ((0, 0), (1, 0)))[:, :-1]  # tokens of answers
  keep = batch.mask[..., None]
  there = batch.teacher
  changed = Batch(
    tokens=jnp.where(said, batch.tokens, other.tokens),
    mask=batch.mask,
    teacher=dataclasses.replace(
      there,
      ids=jnp.where(keep, there.ids, other.teacher.ids),
      log_probs=jnp.where(keep, there.log_probs, other.teacher.log_probs),
      log_tail=jnp.where(batch.mask, there.log_tail, other.teacher.log_tail),
    ),
    features={
      "hidden": jnp.where(read, batch.features["hidden"], jnp.nan),
    },
  )
  got = _slope(trainee, params, frozen, changed, key)
  leaves = jax.tree.leaves(got), jax.tree.leaves(wanted)
  for ours, theirs in zip(*leaves, strict=True):
    np.testing.assert_array_equal(ours, theirs)
  largest = jax.tree.map(lambda x: float(jnp.abs(x).max()), wanted[0])
  assert min(jax.tree.leaves(largest)) > 1e-4, "a weight that is not trained"
  # Nothing to learn is a loss and a slope of 0, not NaN.
  none = dataclasses.replace(batch, mask=jnp.zeros_like(batch.mask))
  slope, figures = _slope(trainee, params, frozen, none, key)
  assert not any(x.any() for x in jax.tree.leaves((slope, figures)))


def test_each_head_s_slope_is_zero_where_it_does_not_learn():
  trainee = TRAINEES[0]
  frozen, params = _setup(trainee)
  batch = _batch()

  def totals(hidden):
    moved = dataclasses.replace(batch, features={"hidden": hidden})
    figures = trainee.loss(params, frozen, moved, jax.random.key(0))
    return figures["loss_by_head"].total

  slopes = jax.jit(jax.jacrev(totals))(batch.features["hidden"])
  moved = np.asarray(slopes != 0).any(-1)
  wanted = np.zeros((K, B, L), bool)
  for row, t, k in _pairs(np.asarray(batch.mask)):
    wanted[k, row, t] = True
  np.testing.assert_array_equal(moved, wanted)
  assert wanted.any((1, 2)).all()


def _add(*sums):
  return functools.reduce(Sum.__add__, sums)


@pytest.mark.parametrize("trainee", TRAINEES[:2], ids=NAMES[:2])
def test_padding_and_parts_change_nothing(trainee):
  frozen, params = _setup(trainee)
  batch, key = _batch(), jax.random.key(0)
  slope, whole = _slope(trainee, params, frozen, batch, key)

  def longer(x):
    extra = ((0, 1), (0, 6), *[(0, 0)] * (x.ndim - 2))
    return jnp.pad(x, extra)

  padded = jax.tree.map(longer, batch)
  more_slope, more = _slope(trainee, params, frozen, padded, key)
  parts = [jax.tree.map(lambda x, i=i: x[i::2], batch) for i in range(2)]
  halves = [_slope(trainee, params, frozen, part, key) for part in parts]
  close = functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-5)
  jax.tree.map(close, more_slope, slope)
  jax.tree.map(close, jax.tree.map(jnp.add, *[h[0] for h in halves]), slope)
  for name, found in whole.items():
    added = _add(*[h[1][name] for h in halves])
    for got in (more[name], added):
      np.testing.assert_array_equal(got.count, found.count)
      close(got.total, found.total)


def test_untrained_heads_are_the_language_head_some_tokens_early():
  """Losses and acceptance by their definitions, in loops."""
  trainee, batch = TRAINEES[0], _batch()
  batch = dataclasses.replace(batch, teacher=top_k(_normal(1, B, L, V), V))
  frozen = Frozen({"embed": {"embedding": _normal(3, V, D)}})
  params = trainee.init(jax.random.key(4), frozen)
  rows = np.asarray(vocabulary_rows(frozen.target), np.float64)
  log_q = np.asarray(batch.features["hidden"], np.float64) @ rows.T
  log_q -= np.log(np.exp(log_q).sum(-1, keepdims=True))
  p = np.asarray(jax.nn.softmax(_normal(1, B, L, V)), np.float64)
  nats, kept, agree, count = np.zeros((4, K))
  for row, t, k in _pairs(np.asarray(batch.mask)):
    nats[k] -= log_q[row, t, batch.tokens[row, t + k + 2]]
    law = p[row, t + k + 1]
    kept[k] += np.minimum(law, np.exp(log_q[row, t])).sum()
    agree[k] += law.argmax() == log_q[row, t].argmax()
    count[k] += 1
  figures = _slope(trainee, params, frozen, batch, jax.random.key(0))[1]
  close = functools.partial(np.testing.assert_allclose, rtol=1e-5)
  close(figures["loss_by_head"].total, nats)
  close(figures["loss_by_head"].count, count)
  close(figures["loss"].total, (0.8 ** np.arange(1, K + 1) * nats).sum())
  close(figures["loss"].count, count[0])
  for temperature, wanted in ((1.0, kept), (0.0, agree)):
    got = trainee.acceptance(params, frozen, batch, jnp.asarray(temperature))
    close(got.total, wanted)
    close(got.count, count)


def test_one_head_a_step_is_the_loss_in_expectation():
  whole = TRAINEES[1]
  frozen, params = _setup(whole)
  batch = _batch()
  wanted = _slope(whole, params, frozen, batch, jax.random.key(0))
  one, seen = dataclasses.replace(whole, one_head=True), {}
  for seed in range(40):
    got = _slope(one, params, frozen, batch, jax.random.key(seed))
    heads = np.flatnonzero(got[1]["loss_by_head"].count)
    assert len(heads) == 1
    seen[int(heads[0])] = got
  assert set(seen) == set(range(K))
  slopes = [seen[k][0] for k in range(K)]
  mean = jax.tree.map(lambda *x: sum(x) / K, *slopes)
  close = functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-6)
  jax.tree.map(close, mean, wanted[0])
  totals = [seen[k][1]["loss"] for k in range(K)]
  close(sum(s.total for s in totals) / K, wanted[1]["loss"].total)
  assert all(s.count == wanted[1]["loss"].count for s in totals)
  # Each head's own figure is what it is when all are computed.
  close(
    _add(*[seen[k][1]["loss_by_head"] for k in range(K)]).total,
    wanted[1]["loss_by_head"].total,
  )


def test_trained_heads_reach_the_best_law_of_a_table_language():
  """With the last token as its feature, the best law of a head is the mean of
  the teacher's over all that followed that token."""
  vocab, size = 4, 40
  table = np.asarray(tables.random_table(0, vocab, 1)["table"])
  law = np.exp(table) / np.exp(table).sum(-1, keepdims=True)
  rng = np.random.default_rng(0)
  tokens = np.zeros((8, size), np.int32)
  for t in range(1, size):
    for row in range(8):
      tokens[row, t] = rng.choice(vocab, p=law[tokens[row, t - 1]])
  batch = Batch(
    tokens=jnp.asarray(tokens),
    mask=jnp.ones(tokens.shape, bool).at[:, -1].set(False),
    teacher=top_k(jnp.asarray(table)[tokens], vocab),
    features={"hidden": jax.nn.one_hot(tokens, vocab)},
  )
  trainee = HeadsTrainee(Medusa(vocab, vocab, 2), Loss("forward_kl"))
  frozen = Frozen({"embed": {"embedding": jnp.eye(vocab)}})
  best = []
  for k in (1, 2):
    now, ahead = tokens[:, : size - 1 - k], tokens[:, k : size - 1]
    mean = [law[ahead[now == x]].mean(0) for x in range(vocab)]
    best.append(np.minimum(law[ahead], np.asarray(mean)[now]).sum(-1).mean())
  optimizer = optax.adam(0.1)

  def step(carry, _):
    params, state = carry
    slope, _ = _slope(trainee, params, frozen, batch, jax.random.key(0))
    slope = jax.tree.map(lambda x: x / 300, slope)
    change, state = optimizer.update(slope, state)
    return (optax.apply_updates(params, change), state), None

  params = trainee.init(jax.random.key(0), frozen)
  start = (params, optimizer.init(params))
  one = jnp.asarray(1.0)
  before = trainee.acceptance(params, frozen, batch, one).mean()
  (params, _), _ = jax.jit(lambda c: jax.lax.scan(step, c, None, 300))(start)
  after = trainee.acceptance(params, frozen, batch, one).mean()
  np.testing.assert_allclose(after, best, atol=2e-3)
  assert (after > before + 0.05).all()


@pytest.mark.parametrize("trainee", TRAINEES, ids=NAMES)
def test_the_drafter_gets_the_weights_that_were_trained(trainee):
  frozen, params = _setup(trainee)
  drafter, draft = trainee.drafter(2), trainee.draft_params(params, frozen)
  assert drafter.num_speculative_tokens == 2 and drafter.net == trainee.net
  drafter.init(Params(frozen.target, draft), 1, 8)
  logits = drafter.net(draft, _normal(9, 3, D), 2)
  assert logits.shape == (3, 2, trainee.net.vocab_size)
  if trainee is TRAINEES[1]:
    assert draft["head"]["kernel"] is frozen.target["embed"]["embedding"]
  assert ("token_ids" in draft) == (frozen.token_ids is not None)


def test_what_does_not_fit_is_refused():
  with pytest.raises(ValueError, match="decay must be above 0"):
    HeadsTrainee(MEDUSA, decay=0.0)
  frozen = Frozen({"embed": {"embedding": _normal(3, V, D)}}, IDS)
  with pytest.raises(ValueError, match="heads of 7 tokens and width 5 do not"):
    TRAINEES[0].init(jax.random.key(0), frozen)
