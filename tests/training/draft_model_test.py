"""A separate draft: what it shares, what it learns from, what it drafts."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specjax import passes
from specjax.models.reduced import Reduced
from specjax.testing.nets import random_net, tiny_net
from specjax.training import losses, teacher
from specjax.training.draft_model import DraftTrainee
from specjax.training.draft_sizes import cut_config, fresh_config
from specjax.training.losses import Loss, parse
from specjax.training.types import Batch, Frozen, Sum, Trainee
from specjax.types import Slots

VOCAB, LENGTH = 17, 9
TARGET = tiny_net(num_layers=3)
WEIGHTS = random_net(TARGET)
IDS = jnp.asarray([0, 2, 3, 5, 8, 11, 13], jnp.int32)
WHOLE = Frozen(WEIGHTS)
REDUCED = Frozen(WEIGHTS, IDS)
CUT = DraftTrainee(
  cut_config(TARGET.config, 2, len(IDS)),
  TARGET.config,
  layers=(0, 2),
  chunk=4,
)
ALL = DraftTrainee(
  cut_config(TARGET.config, 3, None),
  TARGET.config,
  layers=(0, 1, 2),
  train_head=False,
  chunk=4,
)


@functools.partial(jax.jit, static_argnums=0)
def logits_of(model, params, tokens):
  index = jnp.arange(tokens.shape[1], dtype=jnp.int32)[None]
  places = jnp.broadcast_to(index, tokens.shape)
  slots = Slots(tokens, places, passes.causal(places))
  return model(params, slots, model.init_cache(len(tokens), 0)).logits


@pytest.fixture(scope="module")
def batch():
  rng = np.random.default_rng(0)
  tokens = jnp.asarray(rng.integers(0, VOCAB, (3, LENGTH)), jnp.int32)
  mask = np.zeros((3, LENGTH), bool)
  mask[0, 2:7], mask[1, 1:3], mask[1, 5:6] = True, True, True
  taught = teacher.top_k(logits_of(TARGET, WEIGHTS, tokens), VOCAB)
  return Batch(tokens, jnp.asarray(mask), taught, {})


def frozen_of(trainee):
  return WHOLE if trainee.config.head_size is None else REDUCED


@functools.cache
def init(trainee):
  return trainee.init(jax.random.key(1), frozen_of(trainee))


@functools.partial(jax.jit, static_argnums=0)
def _measured(trainee, params, frozen, batch, temperature):
  def total(params):
    found = trainee.loss(params, frozen, batch, jax.random.key(3))["loss"]
    return found.total, found

  slope, found = jax.grad(total, has_aux=True)(params)
  rates = trainee.acceptance(params, frozen, batch, temperature)
  return found, slope, rates


def measure(trainee, batch, params=None, temperature=1.0):
  """(loss, its slope, acceptance)."""
  params = init(trainee) if params is None else params
  given = (params, frozen_of(trainee), batch, jnp.float32(temperature))
  return _measured(trainee, *given)


def test_it_is_a_trainee():
  assert isinstance(CUT, Trainee)
  assert hash(CUT) == hash(dataclasses.replace(CUT))


def test_a_whole_cut_is_the_target(batch):
  assert set(init(ALL)) == {"layers_0", "layers_1", "layers_2", "norm"}
  for temperature in (0.0, 0.5, 1.0):
    loss, _, rates = measure(ALL, batch, temperature=temperature)
    np.testing.assert_allclose(rates.mean(), [1.0], rtol=1e-5)
    assert loss.mean() < 1e-5


@pytest.mark.parametrize("head", [True, False])
def test_a_cut_begins_as_the_targets_layers_and_rows(head):
  trainee = dataclasses.replace(CUT, train_head=head)
  params = init(trainee)
  assert set(params) == {"layers_0", "layers_1", "norm"} | (
    {"head"} if head else set()
  )
  for own, layer in (("layers_0", "layers_0"), ("layers_1", "layers_2")):
    jax.tree.map(np.testing.assert_array_equal, params[own], WEIGHTS[layer])
  whole = trainee.draft_params(params, REDUCED)
  rows = WEIGHTS["embed"]["embedding"]
  assert whole["model"]["embed"]["embedding"] is rows
  np.testing.assert_array_equal(whole["model"]["head"]["kernel"], rows[IDS])
  shared = {id(x) for x in jax.tree.leaves(WEIGHTS)}
  assert not shared & {id(x) for x in jax.tree.leaves(params)}
  axes = jax.tree.map(
    lambda leaf, names: len(names) == leaf.ndim, params, trainee.axes()
  )
  assert all(jax.tree.leaves(axes))


def whole_logits(trainee, params, frozen, tokens):
  """Logits of the model that drafts, over draft ids."""
  weights = trainee.draft_params(params, frozen)
  model = trainee.drafter(1).model
  if isinstance(model, Reduced):
    model, weights = model.model, weights["model"]
  return logits_of(model, weights, tokens)


FRESH = DraftTrainee(
  fresh_config(TARGET.config, num_layers=1, hidden_size=12),
  TARGET.config,
  share_embedding=False,
)


@pytest.mark.parametrize("text, chunk", [("sft", 4), ("lk_lambda", 64)])
def test_the_loss_is_that_of_whole_logits(batch, text, chunk):
  """However it is cut, and with the positions' own laws and tokens."""
  trainee = dataclasses.replace(CUT, objective=parse(text), chunk=chunk)
  logits = whole_logits(trainee, init(trainee), REDUCED, batch.tokens)
  following = jnp.roll(batch.tokens, -1, 1)
  ids = teacher.inverse_ids(IDS, VOCAB)
  given = (logits, batch.teacher, following, batch.mask, ids)
  expected = trainee.objective(*given)
  found, slope, rates = measure(trainee, batch, temperature=0.7)
  np.testing.assert_allclose(found.total, expected.total, rtol=1e-5)
  assert found.count == expected.count
  kept = losses.acceptance(logits, batch.teacher, 0.7, ids)
  total = losses.masked_sum(kept, batch.mask)
  np.testing.assert_allclose(rates.total, total.total[None], rtol=1e-5)
  for path, leaf in jax.tree_util.tree_leaves_with_path(slope):
    assert np.isfinite(leaf).all() and np.any(leaf), path


def test_a_fresh_draft_has_its_own_embedding(batch):
  params = init(FRESH)
  assert params["embed"]["embedding"].shape == (VOCAB, 12)
  assert FRESH.draft_params(params, WHOLE).keys() == params.keys()
  logits = whole_logits(FRESH, params, WHOLE, batch.tokens)
  found, slope, _ = measure(FRESH, batch)
  following = jnp.roll(batch.tokens, -1, 1)
  expected = Loss("forward_kl")(logits, batch.teacher, following, batch.mask)
  np.testing.assert_allclose(found.total, expected.total, rtol=1e-5)
  assert np.any(slope["embed"]["embedding"])


def test_padding_and_unlearnt_positions_change_nothing(batch):
  where = batch.mask[..., None]
  spoilt = dataclasses.replace(
    batch.teacher,
    log_probs=jnp.where(where, batch.teacher.log_probs, 3.0),
    ids=jnp.where(where, batch.teacher.ids, 0),
  )
  wide = jax.tree.map(
    lambda x: jnp.pad(x, ((0, 1), (0, 3), *((0, 0),) * (x.ndim - 2))),
    dataclasses.replace(batch, teacher=spoilt),
  )
  found, expected = measure(CUT, wide), measure(CUT, batch)
  assert found[0].count == expected[0].count == 8
  pairs = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
  for a, b in pairs:
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_nothing_to_learn_is_nothing(batch):
  none = dataclasses.replace(batch, mask=jnp.zeros_like(batch.mask))
  found, slope, rates = measure(CUT, none)
  assert found.mean() == 0 and rates.mean() == 0
  assert not any(np.any(x) for x in jax.tree.leaves(slope))


def test_bfloat16_weights_multiply_in_bfloat16(batch):
  low = jax.tree.map(lambda x: x.astype("bfloat16"), init(CUT))
  found, slope, _ = measure(CUT, batch, low)
  expected, _, _ = measure(CUT, batch)
  assert found.total.dtype == jnp.float32
  assert found.total != expected.total
  assert abs(found.total / expected.total - 1) < 0.1
  assert {x.dtype.name for x in jax.tree.leaves(slope)} == {"bfloat16"}


def test_acceptance_is_the_sum_of_the_smaller_probabilities(batch):
  q = jax.nn.softmax(whole_logits(CUT, init(CUT), REDUCED, batch.tokens))
  p = jax.nn.softmax(logits_of(TARGET, WEIGHTS, batch.tokens))[..., IDS]
  kept = jnp.where(batch.mask, jnp.minimum(p, q).sum(-1), 0.0).sum()
  _, _, rates = measure(CUT, batch)
  assert isinstance(rates, Sum) and rates.total.shape == (CUT.depth,)
  np.testing.assert_allclose(rates.total[0], kept, rtol=1e-5)


@pytest.mark.parametrize(
  "change, fault",
  [
    ({"layers": (0, 3)}, "no layer 3"),
    ({"layers": (0,)}, "1 layers of the target do not make 2"),
    ({"config": FRESH.config, "layers": None}, "cannot share the embedding"),
    (
      {"config": FRESH.config, "layers": (0,), "share_embedding": False},
      "own sizes only",
    ),
    ({"target": tiny_net(19).config}, "reads 17 tokens"),
    ({"chunk": 0}, "chunk must be"),
  ],
)
def test_what_does_not_fit_is_refused(change, fault):
  with pytest.raises(ValueError, match=fault):
    dataclasses.replace(CUT, **change)


def test_ids_must_be_those_of_the_head():
  with pytest.raises(ValueError, match="a head of 7 tokens needs their ids"):
    CUT.init(jax.random.key(1), WHOLE)
  with pytest.raises(ValueError, match="width that 12 divides"):
    fresh_config(TARGET.config, num_layers=1, hidden_size=16)
