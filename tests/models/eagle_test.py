"""EAGLE's layer against its formula, its names, and what it refuses."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specjax import passes
from specjax.models.eagle import EagleHead, EagleParams, logical_axes
from specjax.models.eagle_config import EagleConfig, config_for, default_taps
from specjax.testing import nets
from specjax.types import Slots

TARGET = nets.tiny_net().config
TAPS = ("layer_0", "layer_1", "hidden")
LAYER = {
  *(f"attention/{part}/kernel" for part in "qkvo"),
  *(f"mlp/{part}/kernel" for part in ("gate", "up", "down")),
  "post_norm/scale",
}


def weights_of(config):
  key, other = jax.random.split(jax.random.key(0))
  net = nets.perturb(EagleHead(config).init(key), 1, 0.2)
  shape = (config.layer.vocab_size, config.layer.hidden_size)
  rows = jax.random.normal(other, shape)
  return EagleParams(net, rows, rows if config.version == 1 else None)


def names(net):
  leaves = jax.tree_util.tree_leaves_with_path(net)
  return {
    jax.tree_util.keystr(path, simple=True, separator="/") for path, _ in leaves
  }


@jax.jit(static_argnames="config")
def run(config, params, tokens, taps):
  """(hidden states, logits) of a text, nothing cached."""
  head = EagleHead(config)
  index = jnp.broadcast_to(jnp.arange(tokens.shape[1]), tokens.shape)
  slots = Slots(tokens, index, passes.causal(index))
  empty = head.init_cache(tokens.shape[0], 0)
  hidden, _ = head.feed(params, slots, head.fuse(params, taps), empty)
  return hidden, head.logits(params, hidden)


def some_input(config, scale=1.0):
  tokens = jax.random.randint(jax.random.key(2), (2, 5), 0, 17)
  keys = jax.random.split(jax.random.key(3), len(config.taps))
  shape = (2, 5, config.layer.hidden_size)
  taps = {
    name: scale * jax.random.normal(key, shape)
    for name, key in zip(config.taps, keys, strict=True)
  }
  return tokens, taps


def test_names_are_those_of_the_published_layouts():
  third = names(weights_of(config_for(TARGET, taps=TAPS)).net)
  assert third == {"fc/kernel", "norm/scale", "head/kernel"} | {
    f"midlayer/{name}"
    for name in LAYER | {"input_norm/scale", "hidden_norm/scale"}
  }
  first = names(weights_of(config_for(TARGET, version=1)).net)
  assert first == {"fc/kernel", "fc/bias"} | {f"layers_0/{n}" for n in LAYER}


def test_sizes_of_a_reduced_vocabulary():
  config = config_for(TARGET, taps=TAPS, draft_vocab_size=7)
  net = weights_of(config).net
  assert net["head"]["kernel"].shape == (7, TARGET.hidden_size)
  assert net["fc"]["kernel"].shape == (24, 3 * 24)
  assert net["midlayer"]["attention"]["q"]["kernel"].shape == (24, 48)


@pytest.mark.parametrize(
  "config",
  [
    config_for(TARGET, version=1),
    config_for(TARGET, taps=TAPS, fc_norm=True),
  ],
)
def test_every_weight_has_named_axes(config):
  found = jax.tree.map(
    lambda x, names: x.ndim == len(names),
    weights_of(config).net,
    logical_axes(config),
  )
  assert jax.tree.all(found)


def formula(config, params, tokens, taps):
  """The papers' equations in numpy, a position at a time."""
  net = jax.tree.map(lambda x: np.asarray(x, np.float64), params.net)
  c, third = config.layer, config.version == 3
  layer = net["midlayer" if third else "layers_0"]
  embedded = np.asarray(params.embedding, np.float64)[np.asarray(tokens)]
  features = [np.asarray(taps[name], np.float64) for name in config.taps]

  def norm(x, scale):
    power = (x**2).mean(-1, keepdims=True) + c.rms_norm_eps
    return x / np.sqrt(power) * scale["scale"]

  def turn(x, position):
    half = c.head_dim // 2
    angle = position * c.rope_theta ** (-np.arange(half) / half)
    a, b = x[:half], x[half:]
    cos, sin = np.cos(angle), np.sin(angle)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin])

  def project(name, x):
    flat = x @ layer["attention"][name]["kernel"].T
    return flat.reshape(len(x), -1, c.head_dim)

  outs = []
  for row in range(len(embedded)):
    if third:
      g = np.concatenate([f[row] for f in features], -1)
      stream = g @ net["fc"]["kernel"].T
      x = [norm(embedded[row], layer["input_norm"])]
      x = np.concatenate([*x, norm(stream, layer["hidden_norm"])], -1)
    else:
      both = np.concatenate([embedded[row], features[0][row]], -1)
      x = stream = both @ net["fc"]["kernel"].T + net["fc"]["bias"]
    q, k, v = (project(name, x) for name in "qkv")
    for i in range(len(x)):
      heads = []
      for h in range(c.num_heads):
        kv = h // (c.num_heads // c.num_kv_heads)
        score = np.array(
          [turn(q[i, h], i) @ turn(k[j, kv], j) for j in range(i + 1)]
        )
        w = np.exp(score / np.sqrt(c.head_dim))
        heads.append(w @ v[: i + 1, kv] / w.sum())
      out = np.concatenate(heads) @ layer["attention"]["o"]["kernel"].T
      a = stream[i] + out
      y = norm(a, layer["post_norm"])
      gate, up = (y @ layer["mlp"][n]["kernel"].T for n in ("gate", "up"))
      outs.append(
        a + (gate / (1 + np.exp(-gate)) * up) @ layer["mlp"]["down"]["kernel"].T
      )
  hidden = np.stack(outs).reshape(embedded.shape)
  if third:
    logits = norm(hidden, net["norm"]) @ net["head"]["kernel"].T
  else:
    logits = hidden @ np.asarray(params.head, np.float64).T
  return hidden, logits


@pytest.mark.parametrize("version", [1, 3])
def test_a_text_goes_through_the_papers_equations(version):
  taps = ("hidden",) if version == 1 else TAPS
  config = config_for(TARGET, taps=taps, version=version)
  params = weights_of(config)
  inputs = some_input(config)
  got = run(config, params, *inputs)
  wanted = formula(config, params, *inputs)
  for ours, theirs in zip(got, wanted, strict=True):
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def test_norms_of_the_later_version():
  plain = config_for(TARGET, taps=TAPS)
  params, inputs = weights_of(plain), some_input(plain)
  hidden, logits = run(plain, params, *inputs)
  after = dataclasses.replace(plain, norm_output=True)
  normed, same = run(after, params, *inputs)
  np.testing.assert_allclose(same, logits, rtol=1e-5, atol=1e-5)
  power = (hidden**2).mean(-1, keepdims=True) + TARGET.rms_norm_eps
  wanted = hidden / jnp.sqrt(power) * params.net["norm"]["scale"][None, None]
  np.testing.assert_allclose(normed, wanted, rtol=1e-5, atol=1e-5)

  before = dataclasses.replace(plain, fc_norm=True)
  params = weights_of(before)
  assert {f"fc_norm_{i}/scale" for i in range(3)} <= names(params.net)
  _, small = run(before, params, *some_input(before))
  _, large = run(before, params, *some_input(before, 100.0))
  np.testing.assert_allclose(small, large, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("after", [False, True])
def test_the_targets_rows_may_be_the_head(after):
  own = config_for(TARGET, taps=TAPS, norm_output=after)
  params, inputs = weights_of(own), some_input(own)
  shared = dataclasses.replace(own, own_head=False)
  bare = weights_of(shared)
  assert names(params.net) - names(bare.net) == {"head/kernel"}
  net = {name: leaf for name, leaf in params.net.items() if name != "head"}
  rows = params.net["head"]["kernel"]
  given = dataclasses.replace(params, net=net, head=rows)
  for one, other in zip(
    run(own, params, *inputs), run(shared, given, *inputs), strict=True
  ):
    np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)
  assert logical_axes(shared).keys() == net.keys()


def test_default_features():
  assert default_taps(32) == ("layer_1", "layer_15", "layer_28")
  assert default_taps(30) == ("layer_1", "layer_14", "layer_26")
  assert default_taps(7) == ("layer_1", "layer_2", "layer_3")
  with pytest.raises(ValueError, match="6 layers"):
    default_taps(6)
  assert config_for(TARGET, version=1).taps == ("hidden",)


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    (dict(version=2), "versions 1 and 3"),
    (dict(taps=("hidden", "hidden")), "each once"),
    (dict(version=1), "one feature"),
    (dict(version=1, taps=("hidden",), fc_norm=True), "EAGLE-3"),
    (dict(version=1, taps=("hidden",), own_head=False), "own_head"),
    (dict(draft_vocab_size=18), "does not fit"),
    (dict(layer=TARGET), "1 layer"),
  ],
)
def test_what_does_not_fit_is_refused(changes, message):
  layer = dataclasses.replace(TARGET, num_layers=1)
  with pytest.raises(ValueError, match=message):
    EagleConfig(**(dict(layer=layer, taps=TAPS) | changes))
