"""A draft with first layers of its target, or trained on its features."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specjax import passes
from specjax.checkpoints.drafter_files import DrafterFile, save_drafter
from specjax.checkpoints.loaded import LoadedModel
from specjax.drafters.trained import load
from specjax.testing.nets import random_net, tiny_net
from specjax.training.draft_model import DraftTrainee
from specjax.training.draft_sizes import cut_config
from specjax.training.types import Batch, Frozen, Teacher
from specjax.types import Slots

TARGET = tiny_net(num_layers=3)
WEIGHTS = random_net(TARGET)
IDS = jnp.asarray([0, 2, 3, 5, 8, 11, 13], jnp.int32)
FROZEN = Frozen(WEIGHTS, IDS)
TOKENS = jnp.arange(16, dtype=jnp.int32).reshape(2, 8)
LAW = Teacher(
  ids=jnp.tile(jnp.asarray([3, 5], jnp.int32), (2, 8, 1)),
  log_probs=jnp.log(jnp.tile(jnp.asarray([0.5, 0.25]), (2, 8, 1))),
  log_tail=jnp.full((2, 8), jnp.log(0.25)),
)
OWN = DraftTrainee(
  cut_config(TARGET.config, 3, len(IDS)),
  TARGET.config,
  layers=(0, 1, 2),
  train_head=False,
)
SHARED = dataclasses.replace(OWN, share_layers=2)


@jax.jit
def slope_of(own):
  """(slope, loss) with and without sharing, from the same weights."""
  batch = Batch(TOKENS, TOKENS % 3 > 0, LAW, {})

  def total(trainee, params):
    return trainee.loss(params, FROZEN, batch, jax.random.key(0))["loss"].total

  part = {name: own[name] for name in ("layers_2", "norm")}
  return [
    jax.value_and_grad(lambda p, t=t: total(t, p))(given)
    for t, given in ((OWN, own), (SHARED, part))
  ]


def test_what_is_left_to_train_is_trained_the_same():
  (loss, slope), (found, part) = slope_of(OWN.init(jax.random.key(1), FROZEN))
  assert set(part) == set(SHARED.init(jax.random.key(1), FROZEN))
  assert set(part) == set(SHARED.axes())
  np.testing.assert_allclose(found, loss, rtol=1e-6)
  for name, leaves in part.items():
    jax.tree.map(
      lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6),
      leaves,
      slope[name],
    )


def test_it_is_stored_without_them_and_loads_with_them(tmp_path):
  target = LoadedModel("tiny", TARGET, WEIGHTS)
  params = SHARED.init(jax.random.key(1), FROZEN)
  settings = {
    "config": dataclasses.asdict(SHARED.model.config),
    "share_embedding": True,
    "train_head": False,
    "share_layers": 2,
  }
  sizes = (TARGET.config.vocab_size, TARGET.config.hidden_size)
  file = DrafterFile(
    "draft_model", settings, "tiny", sizes, params, np.asarray(IDS)
  )
  save_drafter(tmp_path / "it", file, "float32")
  drafter, draft = load(tmp_path / "it", target)
  assert drafter.model == SHARED.drafter(1).model
  wanted = SHARED.draft_params(params, FROZEN)
  jax.tree.map(np.testing.assert_array_equal, draft.params, wanted)
  assert draft.params["model"]["layers_1"] is WEIGHTS["layers_1"]


@pytest.mark.parametrize(
  "change, fault",
  [
    ({"share_layers": 3}, "a layer to train"),
    ({"share_layers": -1}, "a layer to train"),
    ({"layers": (0, 2, 1)}, "layers that begin with 0 to 1"),
    ({"layers": None}, "layers that begin with 0 to 1"),
    ({"share_embedding": False, "train_head": True}, "needs share_embedding"),
  ],
)
def test_what_cannot_be_shared_is_refused(change, fault):
  with pytest.raises(ValueError, match=fault):
    dataclasses.replace(SHARED, **change)


def test_the_features_of_the_target_are_regressed():
  """A whole cut has no error; its slope and the law's are added up."""
  trainee = dataclasses.replace(SHARED, feature_weight=0.5)
  assert trainee.taps == ("hidden",) and SHARED.taps == ()
  with pytest.raises(ValueError, match="feature_weight must be 0 or more"):
    dataclasses.replace(SHARED, feature_weight=-1.0)

  @jax.jit
  def measure(params, hidden):
    batch = Batch(TOKENS, TOKENS % 3 > 0, LAW, {"hidden": hidden})
    found = trainee.loss(params, FROZEN, batch, jax.random.key(0))
    plain = SHARED.loss(params, FROZEN, batch, jax.random.key(0))
    return found, plain["loss"]

  index = jnp.arange(8, dtype=jnp.int32)[None]
  places = jnp.broadcast_to(index, TOKENS.shape)
  slots = Slots(TOKENS, places, passes.causal(places))
  cache = TARGET.init_cache(2, 0)
  run = TARGET(WEIGHTS, slots, cache, taps=("hidden",))
  params = SHARED.init(jax.random.key(1), FROZEN)
  found, law = measure(params, run.taps["hidden"])
  np.testing.assert_allclose(found["feature_loss"].total, 0.0, atol=1e-6)
  np.testing.assert_allclose(found["loss"].total, law.total, rtol=1e-5)
  found, law = measure(params, run.taps["hidden"] + 0.1)
  np.testing.assert_allclose(found["feature_loss"].mean(), 0.005, rtol=1e-3)
  count = int((TOKENS % 3 > 0).sum())
  assert found["loss"].count == found["feature_loss"].count == count
  np.testing.assert_allclose(
    found["loss"].total, law.total + 0.5 * 0.005 * count, rtol=1e-4
  )
