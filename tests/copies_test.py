"""The compiled loop writes the cache in place: no copy of it is ever made."""

import jax
import jax.numpy as jnp
import pytest

from specjax import decoding, passes
from specjax.drafters import DraftModel, Eagle, NGram, NoDraft
from specjax.evaluation.aot import count_copies
from specjax.models.eagle import EagleHead, EagleParams
from specjax.models.eagle_config import config_for
from specjax.testing import nets, runs
from specjax.types import Params

_SIZE = 96  # of no other array of the program


def decode(engine, params, rows):
  return decoding.decode(engine, params, rows, jnp.int32(99), jnp.int32(1))


def prefill(engine, params, rows):
  return decoding.prefill(engine, params, rows, chunk=8)


def copies(drafter, model, weights, run=decode):
  """Copies of a layer's cache, the draft's included, in a program."""
  engine = runs.make_engine(model, drafter)
  draft = weights
  if isinstance(drafter, Eagle):
    net = EagleHead(drafter.config).init(jax.random.key(1))
    draft = EagleParams(net, weights["embed"]["embedding"])
  params = Params(weights, draft)
  rows = runs.start(engine, params, [[1, 2, 3]], new=40, size=_SIZE)
  leaves, form = jax.tree.flatten(rows)

  def program(leaves):
    rows = jax.tree.unflatten(form, leaves)
    return jax.tree.leaves(run(engine, params, rows))

  compiled = jax.jit(program, donate_argnums=0).lower(leaves).compile()
  text = compiled.as_text()
  shape = rows.cache.layers[0][0].shape
  assert f"{_SIZE},{shape[-1]}]" in text
  return count_copies(text, shape)


@pytest.fixture(scope="module")
def net():
  model = nets.tiny_net()
  return model, model.init(jax.random.key(0))


@pytest.mark.parametrize("run", [decode, prefill])
def test_no_copy_of_a_cache(net, run):
  model, weights = net
  eagle = Eagle(config_for(model.config, taps=("layer_0", "hidden")), 3)
  for drafter in (NoDraft(), NGram(3), DraftModel(model, 2), eagle):
    assert copies(drafter, model, weights, run) == 0


def test_without_a_conditional_there_are_copies(net, monkeypatch):
  def judge(engine, params, rows, proposal, keys):
    width = engine.drafter.widths[-1]
    judged = passes._judge_at(engine, params, rows, proposal, keys, width)
    return judged, jnp.int32(width)

  monkeypatch.setattr(passes, "judge", judge)
  jax.clear_caches()
  assert copies(NoDraft(), *net) > 0
  jax.clear_caches()
