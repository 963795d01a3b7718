"""The training-time test against dense attention, and against the loop."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specjax import decoding, passes, sampling
from specjax.acceptance import Rejection
from specjax.drafters import Eagle
from specjax.models import attention
from specjax.models.eagle import EagleHead, EagleParams
from specjax.models.eagle_config import config_for
from specjax.testing import nets, runs
from specjax.training.unroll import attend_chains, unroll
from specjax.types import Params, Slots, Streams

MODEL = nets.tiny_net()
TARGET = nets.random_net(MODEL)
DEPTH, _HOT = 4, 3.0


def make(version, **changes):
  taps = ("hidden",) if version == 1 else ("layer_0", "layer_1", "hidden")
  config = config_for(MODEL.config, taps=taps, version=version, **changes)
  net = nets.perturb(EagleHead(config).init(jax.random.key(3)), 4, 0.3)
  rows = TARGET["embed"]["embedding"]
  return config, EagleParams(net, rows, rows if version == 1 else None)


@jax.jit(static_argnames="taps")
def features_of(tokens, taps):
  index = jnp.broadcast_to(jnp.arange(tokens.shape[1]), tokens.shape)
  slots = Slots(tokens, index, passes.causal(index))
  empty = MODEL.init_cache(tokens.shape[0], 0)
  return MODEL(TARGET, slots, empty, taps=taps).taps


def test_chains_attend_as_a_dense_mask_says():
  """Blocks 0 (causal), 1 and 3 (diagonal); 2 is not there."""
  size, blocks = 5, 4
  keys = jax.random.split(jax.random.key(0), 3)
  query = jax.random.normal(keys[0], (2, 6, size, 4))
  fresh = tuple(
    jax.random.normal(key, (2, 2, blocks * size, 4)) for key in keys[1:]
  )
  none = (jnp.zeros((2, 2, 0, 4)),) * 2
  length = jnp.zeros(2, jnp.int32)
  here = jnp.asarray([True, True, False, True])
  dense = np.zeros((1, size, blocks * size), bool)
  for i in range(size):
    dense[0, i, : i + 1] = True
    dense[0, i, [size + i, 3 * size + i]] = True
  wanted = jax.jit(attention.attend)(
    query, none, length, fresh, jnp.asarray(dense)
  )
  live = jnp.broadcast_to(here[None, None], (1, size, blocks))
  got = jax.jit(attend_chains)(query, none, length, fresh, live)
  np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
  ("version", "rounds", "changes"),
  [(1, 0, {}), (3, 5, {}), (3, 0, dict(norm_output=True, fc_norm=True))],
)
def test_a_step_has_the_law_that_the_loop_draws_from(version, rounds, changes):
  """After rounds of keeping and refusing, in rows of different lengths.

  The nodes stand as the text that follows, so they are what is fed.
  """
  config, draft = make(version, **changes)
  drafter = Eagle(config, DEPTH)
  engine = runs.make_engine(MODEL, drafter, Rejection())
  params = Params(TARGET, draft)
  prompts = [[1, 2, 3], [4, 5, 6, 7, 8, 9, 10], [11, 12], [2] * 5]
  warm = runs.Setting(temperature=_HOT)
  rows = runs.start(engine, params, prompts, new=30, size=48, settings=warm)
  if rounds:
    few, one = jnp.int32(rounds), jnp.int32(1)
    rows = decoding.decode(engine, params, rows, few, one)
  keys = Streams(rows.key, rows.length)
  proposal = jax.jit(passes.propose, static_argnums=0)(
    engine, params, rows, keys
  )[0]
  assert (proposal.nodes.count == DEPTH).all()
  nodes = proposal.nodes.tokens
  q = np.asarray(sampling.dense(proposal.q))
  # Drawn, not the likeliest: a draft fed its own guesses would not agree.
  assert (q[:, :-1].argmax(-1) != np.asarray(nodes)[:, :-1]).any()

  count = jnp.full_like(rows.length, DEPTH)
  text = passes.write_tokens(rows.tokens, nodes, rows.length, count)
  head = EagleHead(config)
  logits = jax.jit(
    lambda text: unroll(
      config,
      draft,
      text,
      features_of(text, config.taps),
      DEPTH,
      lambda step, hidden: head.logits(draft, hidden),
    )
  )(text)
  at = np.asarray(rows.length) - 2
  each = np.asarray(jax.nn.softmax(logits / _HOT, -1))
  wanted = np.stack([each[:, row, i] for row, i in enumerate(at)])
  np.testing.assert_allclose(q, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("depth", [1, 3])
def test_a_shorter_unroll_is_the_beginning_of_a_longer_one(depth):
  config, draft = make(3)
  tokens = jax.random.randint(jax.random.key(1), (2, 9), 0, MODEL.vocab_size)
  features = features_of(tokens, config.taps)

  def run(depth):
    inputs = (config, draft, tokens, features, depth)
    return unroll(*inputs, lambda step, hidden: hidden)

  longer = jax.jit(run, static_argnums=0)(DEPTH)
  np.testing.assert_allclose(
    jax.jit(run, static_argnums=0)(depth), longer[:depth], rtol=1e-5, atol=1e-5
  )


def test_what_is_fed_is_the_text():
  """Step s at i reads tokens up to i + 1 + s, and features up to i."""
  config, draft = make(3)
  tokens = jax.random.randint(jax.random.key(1), (1, 9), 0, MODEL.vocab_size)
  features = features_of(tokens, config.taps)

  @jax.jit
  def run(embedding, features):
    own = dataclasses.replace(draft, embedding=embedding)
    place = jnp.arange(9)[None]  # each token is its own place
    inputs = (config, own, place, features, DEPTH)
    return unroll(*inputs, lambda step, hidden: hidden[0].sum(-1))

  rows = jax.random.normal(jax.random.key(2), (9, MODEL.config.hidden_size))
  slope, by_feature = jax.jacrev(run, argnums=(0, 1))(rows, features)
  read = np.asarray((slope != 0).any(-1))  # step, i, token
  read_features = np.asarray((by_feature["layer_0"][:, :, 0] != 0).any(-1))
  for step in range(DEPTH):
    for i in range(9 - 1 - step):
      seen = np.arange(9)
      fed = (seen >= 1) & (seen <= i + 1 + step)
      assert (read[step, i] == fed).all(), (step, i)
      assert (read_features[step, i] == (seen <= i)).all(), (step, i)
