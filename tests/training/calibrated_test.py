"""What EAGLE's fused features begin with: channels of one size."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from specjax.models.eagle_config import config_for
from specjax.testing import nets
from specjax.training.eagle import EagleTrainee
from specjax.training.optimizer import Optimizer
from specjax.training.plan import Plan
from specjax.training.teacher import top_k
from specjax.training.trainer import Trainer
from specjax.training.types import Batch, Frozen

MODEL = nets.tiny_net()
TAPS = ("layer_0", "layer_1", "hidden")
FROZEN = Frozen(nets.random_net(MODEL))
SHAPE = (2, 24)


def trainee_of(norms):
  config = dataclasses.replace(
    config_for(MODEL.config, taps=TAPS), fc_norm=norms
  )
  return EagleTrainee(config, 2)


def batch_of():
  """Features of which one channel is a hundred times the others; padding."""
  keys = jax.random.split(jax.random.key(0), 2 + len(TAPS))
  width = MODEL.config.hidden_size
  size = jnp.where(jnp.arange(width) == 3, 100.0, 1.0 + jnp.arange(width) % 3)
  there = (jnp.arange(SHAPE[1]) < 20)[None, :, None]
  law = jax.random.normal(keys[1], (*SHAPE, MODEL.vocab_size))
  return Batch(
    tokens=jax.random.randint(keys[0], SHAPE, 0, MODEL.vocab_size),
    mask=jnp.broadcast_to(there[..., 0], SHAPE),
    teacher=top_k(law, 4),
    features={
      name: there * size[None, None] * jax.random.normal(key, (*SHAPE, width))
      for name, key in zip(TAPS, keys[2:], strict=True)
    },
  )


def test_every_channel_begins_at_one_size():
  trainee, batch = trainee_of(True), batch_of()
  params = trainee.init(jax.random.key(1), FROZEN)
  found = trainee.calibrated(params, batch)
  for place, name in enumerate(TAPS):
    x = np.asarray(batch.features[name], np.float64)[:, :20].reshape(40, -1)
    unit = x / np.sqrt((x**2).mean(1, keepdims=True))
    scaled = unit * np.asarray(found[f"fc_norm_{place}"]["scale"])
    size = np.sqrt((scaled**2).mean(0))
    small = (unit**2).mean(0) < 0.01  # a channel that hardly varies stays so
    np.testing.assert_allclose(size[~small], 1.0, rtol=1e-4)
    assert (size[small] < 1).all() and not small[3]
  rest = {k: v for k, v in found.items() if not k.startswith("fc_norm")}
  jax.tree.map(
    np.testing.assert_array_equal, rest, {k: params[k] for k in rest}
  )


def test_without_norms_nothing_is_calibrated():
  trainee = trainee_of(False)
  params = trainee.init(jax.random.key(1), FROZEN)
  assert trainee.calibrated(params, batch_of()) is params


def test_a_training_begins_with_it(tmp_path):
  trainee, batch = trainee_of(True), batch_of()
  asked = []
  plan = Plan(steps=1, optimizer=Optimizer(warmup_steps=0))

  def batches(step):
    asked.append(step)
    return batch

  found = Trainer(trainee, FROZEN, batches, [batch], plan, tmp_path / "new")
  assert asked == [0]
  key, _, _ = jax.random.split(jax.random.key(plan.seed), 3)
  wanted = trainee.calibrated(trainee.init(key, FROZEN), batch)
  jax.tree.map(np.testing.assert_array_equal, found._state.params, wanted)
