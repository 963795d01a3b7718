"""What EAGLE's training counts, leaves out, and adds up."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specjax.models.eagle import EagleHead
from specjax.models.eagle_config import config_for
from specjax.testing import nets
from specjax.training.eagle import EagleTrainee
from specjax.training.losses import Loss
from specjax.training.teacher import top_k
from specjax.training.types import Batch, Frozen, Trainee

MODEL = nets.tiny_net()
VOCAB, DEPTH, SIZE = MODEL.vocab_size, 3, 10
TAPS = ("layer_0", "layer_1", "hidden")
IDS = np.asarray([0, 2, 3, 5, 7, 8, 11, 13, 16])
#        prompt  answer      padding
MASK = [[0, 0, 1, 1, 1, 1, 1, 0, 0, 0], [0, 1, 1, 1, 0, 0, 1, 1, 0, 0]]


def frozen_of(reduced):
  ids = jnp.asarray(IDS, jnp.int32) if reduced else None
  return Frozen(nets.random_net(MODEL), ids)


def trainee_of(version, reduced=True, **changes):
  taps = ("hidden",) if version == 1 else TAPS
  size = len(IDS) if reduced else None
  config = config_for(
    MODEL.config, taps=taps, version=version, draft_vocab_size=size
  )
  return EagleTrainee(config, DEPTH, **changes)


def batch_of(seed=0, size=SIZE):
  keys = jax.random.split(jax.random.key(seed), 5)
  shape = (2, SIZE)
  batch = Batch(
    tokens=jax.random.randint(keys[0], shape, 0, VOCAB),
    mask=jnp.asarray(MASK, bool),
    teacher=top_k(2.0 * jax.random.normal(keys[1], (*shape, VOCAB)), VOCAB),
    features={
      name: jax.random.normal(key, (*shape, MODEL.config.hidden_size))
      for name, key in zip(TAPS, keys[2:], strict=True)
    },
  )
  more = size - SIZE
  return jax.tree.map(
    lambda x: jnp.pad(x, ((0, 0), (0, more)) + ((0, 0),) * (x.ndim - 2)), batch
  )


@functools.cache
def start(trainee, reduced=True):
  frozen = frozen_of(reduced)
  params = trainee.init(jax.random.key(7), frozen)
  return nets.perturb(params, 8, 0.3), frozen


@jax.jit(static_argnames="trainee")
def run(trainee, params, frozen, batch, seed=0):
  return trainee.loss(params, frozen, batch, jax.random.key(seed))


@jax.jit(static_argnames="trainee")
def accept(trainee, params, frozen, batch, temperature):
  return trainee.acceptance(params, frozen, batch, temperature)


def learnt(batch, depth, reduced=True):
  """valid[step, row, i] of what is learnt, one position at a time."""
  mask, top = np.asarray(batch.mask), np.asarray(batch.teacher.ids[..., 0])
  valid = np.zeros((depth, *mask.shape), bool)
  for step, row, i in np.ndindex(valid.shape):
    j = i + 1 + step  # the token fed, whose law is learnt
    if j < mask.shape[1]:
      said = not reduced or top[row, j] in IDS
      valid[step, row, i] = mask[row, j] and said
  return valid


@pytest.fixture
def probe(monkeypatch):
  """Adds to the logits of every step what `probe.value` holds."""

  class Probe:
    value = jnp.zeros((1, 1, 1))

  own, held = EagleHead.logits, Probe()

  def logits(self, params, hidden):
    found = own(self, params, hidden)
    return found + jnp.broadcast_to(held.value, found.shape)

  monkeypatch.setattr(EagleHead, "logits", logits)
  return held


@pytest.mark.parametrize(("version", "depth"), [(3, DEPTH), (1, 1)])
def test_gradients_are_zero_where_nothing_is_learnt(probe, version, depth):
  """At prompt, padding and tail, and where the draft cannot say it."""
  trainee, batch = trainee_of(version, noise=0.0), batch_of()
  params, frozen = start(trainee)
  name = "loss_per_depth" if version == 3 else "token_loss"

  def totals(value):
    probe.value = value
    found = trainee.loss(params, frozen, batch, jax.random.key(0))[name]
    return found.total.reshape(-1)

  flat = jnp.zeros((2, SIZE, len(IDS)))
  slope = np.asarray(jax.jit(jax.jacrev(totals))(flat))
  assert slope.shape[0] == depth and np.isfinite(slope).all()
  np.testing.assert_array_equal((slope != 0).any(-1), learnt(batch, depth))
  assert not slope[~learnt(batch, depth)].any()


def test_computing_steps_again_changes_nothing():
  batch = batch_of()
  params, frozen = start(trainee_of(3))

  def slopes(trainee):
    def total(params):
      return run(trainee, params, frozen, batch)["loss"].total

    slope = jax.grad(total)
    steps = str(jax.make_jaxpr(slope)(params))
    return jax.jit(slope)(params), "remat" in steps or "checkpoint" in steps

  held, plain = slopes(trainee_of(3))
  again, computed = slopes(trainee_of(3, remat=True))
  assert (plain, computed) == (False, True)
  for one, other in zip(
    jax.tree.leaves(held), jax.tree.leaves(again), strict=True
  ):
    np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_no_feature_past_the_last_answer_has_a_slope():
  trainee, batch = trainee_of(3), batch_of()
  params, frozen = start(trainee)

  def total(features):
    given = dataclasses.replace(batch, features=features)
    return run(trainee, params, frozen, given)["loss"].total

  slope = jax.grad(total)(batch.features)
  for leaf in slope.values():
    reached = np.asarray((leaf != 0).any(-1))
    for row, mask in enumerate(MASK):
      last = max(i for i, valid in enumerate(learnt(batch, 1)[0, row]) if valid)
      assert reached[row, : last + 1].all() and mask[last + 1]
      assert not reached[row, last + 1 :].any()


@pytest.mark.parametrize("version", [1, 3])
def test_padding_and_splitting_change_nothing(version):
  trainee, batch = trainee_of(version, noise=0.0), batch_of()
  params, frozen = start(trainee)
  whole = run(trainee, params, frozen, batch)
  padded = run(trainee, params, frozen, batch_of(size=SIZE + 4))
  rows = [jax.tree.map(lambda x: x[:1], batch)]
  rows += [jax.tree.map(lambda x: x[1:], batch)]
  parts = [run(trainee, params, frozen, row) for row in rows]
  both = {name: parts[0][name] + parts[1][name] for name in whole}
  for other in (padded, both):
    for name, found in whole.items():
      np.testing.assert_array_equal(found.count, other[name].count)
      np.testing.assert_allclose(found.total, other[name].total, rtol=1e-5)


def laws_of(batch):
  """The teacher's whole laws, in order of ids."""
  ids, probs = np.asarray(batch.teacher.ids), np.exp(batch.teacher.log_probs)
  laws = np.zeros(probs.shape)
  np.put_along_axis(laws, ids, probs, -1)
  return laws


def drafted_laws(trainee, params, frozen, batch):
  """q[step, row, i] over the target's vocabulary."""
  q = np.zeros((DEPTH, 2, SIZE, VOCAB))
  shared = trainee.draft_params(params, frozen)
  head = EagleHead(trainee.config)

  def read(step, hidden):
    return jax.nn.softmax(head.logits(shared, hidden), -1)

  found = trainee._unroll(shared, batch, DEPTH, read)
  q[..., IDS] = np.asarray(found)
  return q


def test_the_loss_is_the_sum_over_steps():
  """KL over the draft vocabulary, p normalised there; 0.8^s of step s."""
  trainee, batch = trainee_of(3), batch_of()
  params, frozen = start(trainee)
  found = run(trainee, params, frozen, batch)
  p, q = laws_of(batch), drafted_laws(trainee, params, frozen, batch)
  valid = learnt(batch, DEPTH)
  wanted = np.zeros(DEPTH)
  for step, row, i in np.argwhere(valid):
    law = p[row, i + 1 + step, IDS] / p[row, i + 1 + step, IDS].sum()
    wanted[step] += (law * np.log(law / q[step, row, i, IDS])).sum()
  each = found["loss_per_depth"]
  np.testing.assert_allclose(each.total, wanted, rtol=1e-4)
  np.testing.assert_array_equal(each.count, valid.sum((1, 2)))
  total = (0.8 ** np.arange(DEPTH) * wanted).sum()
  np.testing.assert_allclose(found["loss"].total, total, rtol=1e-4)
  assert found["loss"].count == valid[0].sum()


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_acceptance_by_teacher_forcing(temperature):
  trainee, batch = trainee_of(3), batch_of()
  params, frozen = start(trainee)
  found = accept(trainee, params, frozen, batch, jnp.asarray(temperature))
  p, q = laws_of(batch), drafted_laws(trainee, params, frozen, batch)
  wanted, count = np.zeros(DEPTH), np.zeros(DEPTH)
  for step, row, i in np.ndindex(DEPTH, 2, SIZE):
    j = i + 1 + step
    if j < SIZE and batch.mask[row, j]:
      one, other = p[row, j], q[step, row, i]
      agrees = float(one.argmax() == other.argmax())
      wanted[step] += np.minimum(one, other).sum() if temperature else agrees
      count[step] += 1
  np.testing.assert_allclose(found.total, wanted, rtol=1e-4, atol=1e-5)
  np.testing.assert_array_equal(found.count, count)


def test_the_first_version_regresses_the_next_feature():
  """Its loss is 1 of the features' and 0.1 of the head's law."""
  trainee, batch = trainee_of(1, noise=0.0), batch_of()
  params, frozen = start(trainee)
  found = run(trainee, params, frozen, batch)
  hidden = trainee._unroll(
    trainee.draft_params(params, frozen), batch, 1, lambda step, hidden: hidden
  )[0]
  error = np.abs(np.asarray(hidden[:, :-1] - batch.features["hidden"][:, 1:]))
  smooth = np.where(error < 1, error**2 / 2, error - 0.5).mean(-1)
  valid = np.asarray(batch.mask)[:, 1:]
  np.testing.assert_allclose(
    found["feature_loss"].total, smooth[valid].sum(), rtol=1e-5
  )
  assert found["feature_loss"].count == valid.sum() == found["loss"].count
  total = found["feature_loss"].total + 0.1 * found["token_loss"].total
  np.testing.assert_allclose(found["loss"].total, total, rtol=1e-6)

  noisy = dataclasses.replace(trainee, noise=0.1)
  one, same, other = (
    run(noisy, params, frozen, batch, seed)["loss"].total for seed in (1, 1, 2)
  )
  assert one == same != other


@pytest.mark.parametrize("version", [1, 3])
def test_a_trainee_by_contract(version):
  trainee = trainee_of(version)
  assert isinstance(trainee, Trainee) and hash(trainee) == hash(trainee)
  frozen = frozen_of(True)
  params = trainee.init(jax.random.key(0), frozen)
  draft = trainee.draft_params(params, frozen)
  embedding = frozen.target["embed"]["embedding"]
  assert draft.embedding is embedding
  assert trainee.drafter(5).num_speculative_tokens == 5
  rows = draft.net["head"]["kernel"] if version == 3 else draft.head
  np.testing.assert_array_equal(rows, embedding[IDS])


def test_a_few_steps_lower_every_depth():
  trainee, batch = trainee_of(3), batch_of()
  params, frozen = start(trainee)

  @jax.jit
  def step(params):
    def mean(params):
      found = trainee.loss(params, frozen, batch, jax.random.key(0))
      return found["loss"].mean(), found["loss_per_depth"].mean()

    slope, each = jax.grad(mean, has_aux=True)(params)
    return jax.tree.map(lambda x, g: x - 0.1 * g, params, slope), each

  params, before = step(params)
  for _ in range(40):
    params, after = step(params)
  assert (after < before).all()


def test_other_objectives_and_what_is_refused():
  trainee = trainee_of(3, objective=Loss("sft"))
  params, frozen = start(trainee)
  assert jnp.isfinite(run(trainee, params, frozen, batch_of())["loss"].total)
  with pytest.raises(ValueError, match="depth must be"):
    EagleTrainee(trainee.config, 0)
  with pytest.raises(ValueError, match="decay must be"):
    EagleTrainee(trainee.config, decay=-1.0)
  with pytest.raises(ValueError, match="token ids"):
    trainee.init(jax.random.key(0), frozen_of(False))
  other = dataclasses.replace(
    frozen, target=nets.random_net(nets.tiny_net(vocab_size=19))
  )
  with pytest.raises(ValueError, match="embeddings"):
    trainee.init(jax.random.key(0), other)
